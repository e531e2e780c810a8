package jsonfault_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/jsonfault"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                      "it ends too early",
		`{"a": `:                "it ends too early",
		`{"a": "hidden`:         "it ends too early",
		`{"a": 1,}`:             "the last item of a map is followed by a comma",
		`{a: 1}`:                "a key in double quotes is expected",
		`{'a': 1}`:              "a key in double quotes is expected",
		"{// why\n\"a\": 1}":    "JSON has no comments",
		"# why\n{}":             "JSON has no comments",
		`[1, 2,]`:               "a value is missing, or there is a comma too many",
		`{"a": }`:               "a value is missing, or there is a comma too many",
		`{"a": hidden}`:         "a value is expected; a text is in double quotes",
		`{"a": 'hidden'}`:       "a value is expected; a text is in double quotes",
		`{"a": nope}`:           "a value is expected; true, false and null are in lower case, and a text is in double quotes",
		`{"a": True}`:           "a value is expected; a text is in double quotes",
		`{"a": 1 "b": 2}`:       "a comma or } is expected after a value",
		`{"a" 1}`:               "a colon is expected after a key",
		`[1 2]`:                 "a comma or ] is expected after an item of a list",
		"{\"a\": \"hid\nden\"}": `a text has a line break or another control character: write \n for a line break`,
		`{"a": "C:\data"}`:      `in a text \ begins an escape such as \n: write \\`,
		`{"a": "\u12x4"}`:       `in a text \ begins an escape such as \n: write \\`,
		`{"a": 1.}`:             "a number such as 12, -0.5 or 1e3 is expected",
		`{"a": -}`:              "a number such as 12, -0.5 or 1e3 is expected",
		`{"a": 1ex}`:            "a number such as 12, -0.5 or 1e3 is expected",
		`{} {}`:                 "there is more after its end",
	} {
		var v any
		err := json.Unmarshal([]byte(text), &v)
		require.Error(t, err, text)
		require.Equal(t, want, jsonfault.Explain(err), text)
	}
}

type inner struct {
	Name string `json:"name"`
}

type outer struct {
	inner

	Size   int               `json:"size"`
	Share  float64           `json:"share,omitempty"`
	Count  uint              `json:"count"`
	On     *bool             `json:"on"`
	Labels map[string]string `json:"labels"`
	Items  []inner           `json:"items"`
	By     map[string]inner  `json:"by"`
	At     time.Time         `json:"at"`
	Raw    json.RawMessage   `json:"raw"`
	Hidden string            `json:"-"`
}

func TestMismatch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"size": "hidden"}`: "a string where a whole number is expected",
		`{"size": 1.5}`:      "the number 1.5 where a whole number is expected",
		`{"count": -1}`:      "the number -1 where a whole number of at least 0 is expected",
		`{"share": true}`:    "true or false where a number is expected",
		`{"name": 1}`:        "a number where a string is expected",
		`{"on": []}`:         "a list where true or false is expected",
		`{"labels": []}`:     "a list where a map is expected",
		`{"items": {}}`:      "a map where a list is expected",
		`[]`:                 "a list where a map is expected",
	} {
		err := json.Unmarshal([]byte(text), new(outer))
		var mismatch *json.UnmarshalTypeError
		require.ErrorAs(t, err, &mismatch, text)
		require.Equal(t, want, jsonfault.Mismatch(mismatch), text)
	}
}

func TestIsTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{`{"at": "soon"}`: true, `{"at": 1}`: true, `{"size": "1"}`: false} {
		require.Equal(t, want, jsonfault.IsTime(json.Unmarshal([]byte(text), new(outer))), text)
	}
}

func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]jsonfault.Unknown{
		`{"name": "a", "SIZE": 1, "labels": {"x": "y"}, "raw": {"x": 1}, "items": [{"name": "b"}], "by": {"x": {"name": "c"}}}`: nil,
		`[]`:          nil,
		`{"siez": 1}`: {{"siez", `there is no field "siez" here; did you mean "size"?`}},
		`{"items": [{}, {"title": 1}], "by": {"x": {"nam": 1}}, "colour": 1}`: {
			{"by.x.nam", `there is no field "nam" here; did you mean "name"?`},
			{"colour", `there is no field "colour" here, only at, by, count, items, labels, name, on, raw, share, size`},
			{"items[1].title", `there is no field "title" here, only name`},
		},
	} {
		require.Equal(t, want, jsonfault.UnknownKeys([]byte(text), new(outer), 9), text)
	}
	require.Len(t, jsonfault.UnknownKeys([]byte(`{"u": 1, "v": 1, "w": 1}`), outer{}, 2), 2)
	require.Equal(t, []jsonfault.Unknown{{"a", `there is no field "a" here`}}, jsonfault.UnknownKeys([]byte(`{"a": 1}`), struct{}{}, 9))
}

type settings struct {
	Name   string            `json:"name"`
	Wait   time.Duration     `json:"wait"`
	Size   int               `json:"size"`
	Share  float64           `json:"share"`
	Labels map[string]string `json:"labels"`
	Items  []struct {
		On bool `json:"on"`
	} `json:"items"`
}

func TestMismatchIn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"name": 5}`:                  "name: a number where a string is expected",
		`{"wait": "30s"}`:              "wait: a string where a whole number of nanoseconds is expected",
		`{"size": 1.5}`:                "size: the number 1.5 where a whole number is expected",
		`{"items": [{"on": "yes"}]}`:   "items.on: a string where true or false is expected",
		`{"items": {}}`:                "items: a map where a list is expected",
		`{"labels": []}`:               "labels: a list where a map is expected",
		`[]`:                           ": a list where a value of the type jsonfault_test.settings is expected",
		`{"name": "x", "share": true}`: "share: true or false where a number is expected",
	} {
		var v settings
		err := json.Unmarshal([]byte(text), &v)
		require.Error(t, err, text)
		path, detail, found := jsonfault.MismatchIn("unmarshaling config: " + err.Error())
		require.True(t, found, err)
		require.Equal(t, want, path+": "+detail, text)
	}
	_, _, found := jsonfault.MismatchIn("no such region")
	require.False(t, found)
}
