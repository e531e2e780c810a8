package sqldb

// Condition is a part of a WHERE clause.
type Condition struct {
	Where string
	Args  []any
	// ByID reports that the condition refers to the id "$id", and else to the
	// run r.
	ByID bool
}

// AllOf is the conjunction of the conditions that are not empty.
func AllOf(list ...Condition) Condition {
	var out Condition
	for _, c := range list {
		switch {
		case c.Where == "":
		case out.Where == "":
			out.Where = c.Where
		default:
			out.Where += ` AND ` + c.Where
		}
		out.Args = append(out.Args, c.Args...)
	}
	return out
}

// OneOf is the condition that a column has one of the values; it is empty
// without values.
func OneOf[T ~string](column string, values []T) Condition {
	if len(values) == 0 {
		return Condition{}
	}
	return Condition{Where: column + ` IN (` + Tuples(`?`, len(values)) + `)`, Args: TextArgs(values)}
}
