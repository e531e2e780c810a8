package logging

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
)

// unique makes the keys of each line unique: parsers keep one value of a repeated
// key, or refuse the line. An attribute that repeats a key with the same value is
// dropped. One with another value gets the next free key: pool, pool_2, pool_3.
//
// It also replaces durations with their text: encoding/json writes nanoseconds,
// and the same line in both formats should have the same values.
//
// Lines without either go to the next handler as they are.
type unique struct {
	next slog.Handler
	// keys are the attributes that the next handler adds to each line, in the
	// innermost group.
	keys []slog.Attr
}

var _ slog.Handler = (*unique)(nil)

// builtin returns the keys that handlers add to each line. Their values are not
// known, so attributes with these keys are never dropped.
func builtin() []slog.Attr {
	return []slog.Attr{{Key: slog.TimeKey}, {Key: slog.LevelKey}, {Key: slog.MessageKey}}
}

// Enabled implements slog.Handler.
func (u *unique) Enabled(ctx context.Context, level slog.Level) bool {
	return u.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (u *unique) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return u
	}
	l := list{attrs: slices.Clip(slices.Clone(u.keys))}
	l.add(attrs...)
	added := l.attrs[len(u.keys):]
	return &unique{next: u.next.WithAttrs(added), keys: l.attrs}
}

// WithGroup implements slog.Handler.
func (u *unique) WithGroup(name string) slog.Handler {
	if name == "" {
		return u
	}
	// Attributes that follow are inside of the group, so this level gets no more keys.
	l := list{attrs: u.keys}
	return &unique{next: u.next.WithGroup(l.free(name))}
}

// Handle implements slog.Handler.
func (u *unique) Handle(ctx context.Context, r slog.Record) error {
	if u.clean(r) {
		return u.next.Handle(ctx, r)
	}
	l := list{attrs: slices.Grow(slices.Clone(u.keys), r.NumAttrs())}
	r.Attrs(func(a slog.Attr) bool {
		l.add(a)
		return true
	})
	fixed := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	fixed.AddAttrs(l.attrs[len(u.keys):]...)
	return u.next.Handle(ctx, fixed)
}

// clean reports whether the attributes of a record have simple values and unique
// keys. It allocates nothing for the usual number of attributes.
func (u *unique) clean(r slog.Record) bool {
	var array [16]string
	keys := array[:0]
	clean := true
	r.Attrs(func(a slog.Attr) bool {
		kind := a.Value.Kind()
		clean = kind != slog.KindDuration && kind != slog.KindGroup && kind != slog.KindLogValuer &&
			!slices.Contains(keys, a.Key) && !slices.ContainsFunc(u.keys, func(b slog.Attr) bool { return b.Key == a.Key })
		keys = append(keys, a.Key)
		return clean
	})
	return clean
}

// list is a list of attributes with unique keys.
type list struct{ attrs []slog.Attr }

func (l *list) add(attrs ...slog.Attr) {
	for _, a := range attrs {
		a.Value = a.Value.Resolve()
		group := a.Value.Kind() == slog.KindGroup
		if group && a.Key == "" { // handlers write its attributes at this level
			l.add(a.Value.Group()...)
			continue
		}
		if group {
			var inner list
			inner.add(a.Value.Group()...)
			a.Value = slog.GroupValue(inner.attrs...)
		}
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		if l.repeats(a) {
			continue
		}
		a.Key = l.free(a.Key)
		l.attrs = append(l.attrs, a)
	}
}

// repeats reports whether the list has the attribute.
func (l *list) repeats(a slog.Attr) bool {
	return slices.ContainsFunc(l.attrs, func(b slog.Attr) bool {
		// Values of any type may not be comparable, so their texts are compared.
		return b.Key == a.Key && b.Value.Kind() == a.Value.Kind() && b.Value.String() == a.Value.String()
	})
}

// free returns the key, or the next free one that begins with it.
func (l *list) free(key string) string {
	taken := func(key string) bool {
		return slices.ContainsFunc(l.attrs, func(b slog.Attr) bool { return b.Key == key })
	}
	out := key
	for n := 2; taken(out); n++ {
		out = key + "_" + strconv.Itoa(n)
	}
	return out
}
