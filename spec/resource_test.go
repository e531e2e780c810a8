package spec_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// position is a text that is a number in JSON, too.
type position string

func (p *position) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, (*string)(p)) }

type box struct {
	Size    int               `json:"size"`
	Seconds *int64            `json:"seconds,omitempty"`
	From    position          `json:"from,omitempty"`
	Text    string            `json:"text,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Any     json.RawMessage   `json:"any,omitempty"`
}

func TestReadResource(t *testing.T) {
	t.Parallel()
	for format, text := range map[spec.Format]string{
		spec.FormatYAML: "name: a\nsize: 0\nseconds: 4294967296\nfrom: 12\nlabels: {b: 1}\nany: {c: [1]}\n",
		spec.FormatJSON: `{"name": "a", "size": 0, "seconds": 4294967296, "from": 12, "labels": {"b": "1"}, "any": {"c": [1]}}`,
	} {
		got, err := spec.ReadResource[box]("box", "size", []byte(text), format)
		require.NoError(t, err)
		require.Equal(t, "a", got.Name)
		require.Equal(t, box{Seconds: new(int64(1 << 32)), From: "12", Labels: map[string]string{"b": "1"}, Any: json.RawMessage(`{"c":[1]}`)}, got.Spec)
	}
}

func TestReadResource_faults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]run.Fault{
		"- a": {{Line: 1, Code: run.FaultWrongType, Detail: "a list where a box, which is a map, is expected"}},
		"":    {{Code: run.CodeUnreadable, Detail: "the document is empty"}},
		"name: a\ntext: b": {
			{Path: "size", Line: 1, Code: run.FaultRequired, Detail: "a box needs it"},
		},
		"name: a\nsize:": {
			{Path: "size", Line: 2, Code: run.FaultRequired, Detail: "a box needs it"},
		},
		"<<: {size: 1}\nname: 7": {
			{Path: "name", Line: 2, Code: run.FaultWrongType, Detail: "an unquoted number where a string is expected: put it in quotes"},
		},
		"size: 1\nsize: 2\ntexd: b\nlabels: [c]\nfrom: []": {
			{Path: "size", Line: 2, Code: run.FaultDuplicate, Detail: `"size" is there already, in line 1`},
			{Path: "texd", Line: 3, Code: run.FaultUnknownField, Detail: `there is no field "texd" here; did you mean "text"?`},
			{Path: "labels", Line: 4, Code: run.FaultWrongType, Detail: "a list where a map is expected"},
			{Path: "from", Line: 5, Code: run.FaultWrongType, Detail: "a list where a string is expected"},
		},
		"size: 4294967296": {
			{Path: "size", Line: 1, Code: run.FaultOutOfRange, Detail: `"4294967296" is not a decimal number in the allowed range`},
		},
	} {
		_, err := spec.ReadResource[box]("box", "size", []byte(text), spec.FormatYAML)
		require.Equal(t, want, faults(err), text)
	}
	_, err := spec.ReadResource[box]("box", "size", []byte("text: 1"), spec.FormatYAML)
	require.EqualError(t, err, "the box has 2 faults")
}

func TestLocateResource(t *testing.T) {
	t.Parallel()
	got := spec.LocateResource[box]("box", []run.Fault{{Path: "labels.c"}, {Path: "name"}, {Path: "text"}}, []byte("size: 1\nlabels:\n  b: x\nname: a\n"), spec.FormatYAML)
	require.Equal(t, []run.Fault{{Path: "labels.c", Line: 2}, {Path: "name", Line: 4}, {Path: "text", Line: 1}}, got)
}
