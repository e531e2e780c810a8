package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/drover-run/drover/internal/truncate"
)

// minPart is what shorten leaves of each entry of a list, in bytes: about a grant with one
// pattern. A list whose entries need more together loses the last ones.
const minPart = 100

// shorten returns a JSON text of at most limit bytes, if that is enough for its keys. It cuts
// the longest parts first, and says in the place of what it leaves out how much that was.
func shorten(text json.RawMessage, limit int) json.RawMessage {
	if len(text) <= limit {
		return text
	}
	var list []json.RawMessage
	var object map[string]json.RawMessage
	var s string
	switch {
	case json.Unmarshal(text, &list) == nil:
		return shortenList(list, limit)
	case json.Unmarshal(text, &object) == nil:
		return shortenObject(object, limit)
	case json.Unmarshal(text, &s) == nil:
		return shortenText(s, limit)
	}
	return quote(leftOut(len(text), "bytes"))
}

func shortenList(list []json.RawMessage, limit int) json.RawMessage {
	mark := func(n int) json.RawMessage { return quote(leftOut(n, fmt.Sprintf("of %d", len(list)))) }
	room := limit - len("[]") - len(mark(len(list)))
	most, kept := max(longest(list, room), minPart), []json.RawMessage{}
	for _, entry := range list {
		entry = shorten(entry, most)
		if room -= len(entry) + len(","); room < 0 {
			break
		}
		kept = append(kept, entry)
	}
	if n := len(list) - len(kept); n > 0 {
		kept = append(kept, mark(n))
	}
	return marshal(kept)
}

func shortenObject(object map[string]json.RawMessage, limit int) json.RawMessage {
	room := limit - len("{}")
	for key := range object {
		room -= len(quote(key)) + len(":")
	}
	most, out := longest(slices.Collect(maps.Values(object)), room), make(map[string]json.RawMessage, len(object))
	for key, value := range object {
		out[key] = shorten(value, most)
	}
	return marshal(out)
}

func shortenText(s string, limit int) json.RawMessage {
	cut := func(n int) json.RawMessage {
		kept := truncate.String(s, n, "")
		return quote(kept + " ... " + leftOut(len(s)-len(kept), "bytes"))
	}
	tooMany := sort.Search(min(len(s), limit), func(n int) bool { return len(cut(n)) > limit }) // characters may be escaped
	return cut(max(0, tooMany-1))
}

// longest returns how long a part may be if all of them, with a comma each, must fit into a
// room: as long as possible, and the same for all.
func longest(parts []json.RawMessage, room int) int {
	sizes := make([]int, len(parts))
	for i, part := range parts {
		sizes[i] = len(part) + len(",")
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if share := room / (len(sizes) - i); size > share {
			return max(0, share-len(","))
		}
		room -= size
	}
	return math.MaxInt
}

func leftOut(n int, unit string) string { return fmt.Sprintf("%d %s left out", n, unit) }

func quote(text string) json.RawMessage { return marshal(text) }

// marshal encodes JSON, or a text.
func marshal(v any) json.RawMessage {
	text, _ := json.Marshal(v) //nolint:errchkjson // it can be encoded
	return text
}
