package runs

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/drover-run/drover/run"
)

// cursor is a position in a list, and the direction to continue in.
type cursor struct {
	id        run.ID
	back      bool // against the order of the query
	inclusive bool
}

// descending reports whether ids descend in the direction of the cursor.
func (c cursor) descending(q run.ListQuery) bool { return q.Ascending == c.back }

// operator compares ids with that of the cursor.
func (c cursor) operator(descending bool) string {
	op := ` >`
	if descending {
		op = ` <`
	}
	if c.inclusive {
		op += `=`
	}
	return op
}

// cursorText is the content of a cursor, before base64.
type cursorText struct {
	ID        run.ID `json:"i"`
	Back      bool   `json:"b,omitempty"`
	Inclusive bool   `json:"n,omitempty"`
	Shape     string `json:"s"`
}

// shape is a digest of the parts of a query that must be the same for all pages
// of a list. The page size may change.
func shape(q run.ListQuery) string {
	q.Cursor, q.Limit, q.TokenFor = "", 0, nil
	text, err := json.Marshal(q)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// formatCursor returns the text of a cursor, "" for one without an id.
func formatCursor(q run.ListQuery, c cursor) string {
	if c.id == "" {
		return ""
	}
	text, err := json.Marshal(cursorText{ID: c.id, Back: c.back, Inclusive: c.inclusive, Shape: shape(q)})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseCursor reads the cursor of a query. Errors: invalid.
func parseCursor(q run.ListQuery) (cursor, error) {
	if q.Cursor == "" {
		return cursor{}, nil
	}
	var c cursorText
	text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil || json.Unmarshal(text, &c) != nil || !run.ValidID(c.ID) {
		return cursor{}, invalidCursor("it cannot be read")
	}
	if c.Shape != shape(q) {
		return cursor{}, invalidCursor("it belongs to a list with other filters or another order")
	}
	return cursor{id: c.ID, back: c.Back, inclusive: c.Inclusive}, nil
}

func invalidCursor(why string) error {
	return run.InvalidError("the cursor is not valid: "+why, []run.Fault{{Path: "cursor", Code: run.CodeInvalid, Detail: why}})
}
