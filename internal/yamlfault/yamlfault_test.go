package yamlfault_test

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/drover-run/drover/internal/yamlfault"
)

const head = "name: n\ngroup: /a/b\ntasks:\n  a:\n    steps:\n"

func TestExplain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string // after the five lines of head
		line int
		want string
	}{
		"an item too deep":       {"    - run: one\n     - run: two\n", 7, "indented by 5 spaces, which fits no line above: 4 or 6 would"},
		"an item too shallow":    {"    - run: one\n   - run: two\n    - run: three\n", 7, "indented by 3 spaces, which fits no line above: 2 or 4 would"},
		"a list too shallow":     {"    - run: one\n  b:\n     steps:\n    - run: two\n", 9, "indented by 4 spaces, which fits no line above: 2 or 5 would"},
		"a key too shallow":      {"    - run: one\n      name: x\n     when: always\n", 8, "indented by 5 spaces, which fits no line above: 4 or 6 would"},
		"a key too deep":         {"    - run: one\n   b:\n    steps: []\n", 7, "indented by 3 spaces, which fits no line above: 2 or 4 would"},
		"a key below a text":     {"    - run: one\n        name: x\n", 7, "the key cannot stand here, below a text"},
		"no space after a colon": {"    - run:one\n      name: x\n", 7, "a space follows each"},
		"a list after a key":     {"    timeout: 1m\n    - run: two\n", 7, "cannot be mixed"},
		"a key after a list":     {"    - run: one\n    timeout: 1m\n    - run: two\n", 8, "cannot be mixed"},
		"no colon":               {"    - run: one\n      name\n      image: x\n", 7, "the line is no key"},
		"a tab":                  {"\t- run: one\n", 6, "a tab is part of the indentation"},
		"a tab in the next line": {"    - run: one\n\t  name: x\n", 7, "a tab is part of the indentation"},
		"a tab after spaces":     {"    - run: one\n    \tname: x\n", 7, "a tab is part of the indentation"},
		"a tab after a dash":     {"    -\trun: one\n    \t- run: two\n", 6, "a tab is part of the indentation"},
		"a colon in a text":      {"    - run: one\n    - run: echo \"a: b\"\n    - run: two\n", 7, `": " within a text would begin another key: put the whole text in quotes, or write it below a |`},
		"a colon in a name":      {"    - run: one\n    - name: Note: this\n      run: x\n", 7, `": " within a text`},
		"a script ends early":    {"    - run: |\n        one\n        two\n      three\n    - run: four\n", 9, "the text below the | or > of line 6 ends here"},
		"a script with a text":   {"    - run: |\n        cat <<END\nhello\nEND\n        two\n", 8, "the text below the | or > of line 6 ends here"},
		"a script that goes on":  {"    - run: |\n        if x; then\n      echo \"a\"\n        fi\n", 8, "the text below the | or > of line 6 ends here"},
		"a folded text":          {"    - run: >-  # folded\n\n        one\n     two\n", 9, "the text below the | or > of line 6 ends here"},
		"quotes left open":       {"    - run: \"echo one\n    - run: two\n  b:\n    steps: []\n", 6, "the quotes that begin here are not closed"},
		"an apostrophe":          {"    - run: 'it's'\n    - run: two\n", 6, "the text goes on after its closing quote"},
		"quotes around a part":   {"    - run: \"echo\" one\n    - run: two\n", 6, "the text goes on after its closing quote"},
		"a backslash":            {"    - run: \"C:\\dir\"\n", 6, `in double quotes \ begins an escape`},
		"a list left open":       {"    - run: x\n    depends: [a, b\n    image: x\n", 7, "[ and { begin a list or a map"},
		"no comma":               {"    - {run: x name: y}\n", 6, "[ and { begin a list or a map"},
		"a percent sign":         {"    - run: %x\n", 6, "needs quotes"},
		"an at sign":             {"    - run: @x\n", 6, "needs quotes"},
		"a backtick":             {"    - run: `x`\n", 6, "needs quotes"},
		"a script in the margin": {"    - run: |\n    hunter2\n", 7, "the text below the | or > of line 6 has to be indented more"},
		"an asterisk":            {"    - run: *.go\n", 6, "a text that begins with * or & needs quotes"},
		"an unknown anchor":      {"    - run: x\n    - run: *hunter2\n    - run: y\n", 7, "a text that begins with * or & needs quotes"},
		"an exclamation mark":    {"    - run: one\n    - run: !<x y\n", 7, "a text that begins with ! needs quotes"},
		"text after a bar":       {"    - run: | one\n", 6, "begins in the next line"},
		"a template":             {"    - run: {{ input \"x\" }} y\n    - run: y\n", 6, "a text that begins with {{ needs quotes"},
		"a template as a name":   {"    - run: x\n      name: {{ input \"x\" }}-y\n", 7, "a text that begins with {{ needs quotes"},
		"a control character":    {"    - run: \x01\n", 6, "control character"},
		"a second document":      {"    - run: x\n---\na: [\n", 8, "[ and { begin a list or a map"},
		"lines of Windows":       {"    - run: one\r\n     - run: two\r\n", 7, "indented by 5 spaces"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := []byte(head + tt.text)
			line, detail := yamlfault.Explain(text, refuse(t, text))
			require.Contains(t, detail, tt.want)
			require.Equal(t, tt.line, line)
			require.NotContains(t, detail, "hunter2")
		})
	}
	// In a large text the line is that of the library.
	large := []byte(head + "    - run: [\n" + strings.Repeat("# comment\n", 20_000))
	line, detail := yamlfault.Explain(large, refuse(t, large))
	require.NotZero(t, line)
	require.Contains(t, detail, "[ and { begin a list or a map")
}

func TestError(t *testing.T) {
	t.Parallel()
	read := func(text string) error {
		var x []struct {
			Name    string
			Number  int
			Time    time.Time
			Pause   time.Duration
			List    []string
			Section struct{ On bool }
		}
		decoder := yaml.NewDecoder(strings.NewReader(text))
		decoder.KnownFields(true)
		err := decoder.Decode(&x)
		require.Error(t, err)
		return yamlfault.Error([]byte(text), err, x)
	}
	require.EqualError(t, read("- name: n\n  numbr: 1\n  number: hunter2\n  list: {a: hunter2}\n  section: [hunter2]\n"), strings.Join([]string{
		`line 2: there is no key "numbr"`,
		"line 3: a text where a number is expected",
		"line 4: a map where a list is expected",
		"line 5: a list where a map is expected",
	}, "\n"))
	require.EqualError(t, read("- section: {on: \"hunter2\\nhunter2\"}\n- time: [hunter2]\n- name: [hunter2]\n- pause: hunter2\n- list: !vault hunter2\n"), strings.Join([]string{
		"line 1: a text where true or false is expected",
		"line 2: a list where a time such as 2026-01-31T12:00:00Z is expected",
		"line 3: a list where a text is expected",
		"line 4: a text where a duration such as 90s is expected",
		"line 5: a value of another type where a list is expected",
	}, "\n"))
	require.EqualError(t, read("- name: n\n  list: []\n  name: m\n- section: {on: true}\n  section: {}\n"), strings.Join([]string{
		`line 3: the key "name" is there already, in line 1`,
		`line 5: the key "section" is there already, in line 4`,
	}, "\n"))
	require.EqualError(t, read("- number: !!int hunter2\n"), "a value does not fit the type before it, such as !!int")
	require.EqualError(t, read("- section: {<<: hunter2}\n"), "<< merges a map, or a list of maps")
	require.EqualError(t, read("- time: hunter2\n"), "a time such as 2026-01-31T12:00:00Z is expected")
	require.EqualError(t, read("- name: n\n\tlist: []\n"), "line 2: a tab is part of the indentation: YAML allows only spaces there")
}

type (
	level  string
	flags  []level
	labels map[string]level
	count  int
	toggle bool
	place  struct{ Level level }
	list   []struct {
		Flags  *flags
		Labels labels
		Count  count
		On     toggle
		Place  place
		Level  level
		Host   netip.Addr
		Any    custom
		Again  *list
	}
)

// custom reads itself.
type custom struct{}

func (*custom) UnmarshalYAML(n *yaml.Node) error {
	type hidden struct{ Level level }
	return n.Decode(new(struct{ X hidden }))
}

// TestError_named_types checks that the fault of a type with a name says what it accepts.
func TestError_named_types(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: b":                       "a map where a list is expected",
		"- {flags: {a: b}}":          "a map where a list is expected",
		"- {flags: [[a]]}":           "a list where a text is expected",
		"- {labels: [a]}":            "a list where a map is expected",
		"- {labels: {a: [b]}}":       "a list where a text is expected",
		"- {count: [1]}":             "a list where a number is expected",
		"- {on: {a: b}}":             "a map where true or false is expected",
		"- {place: [a]}":             "a list where a map is expected",
		"- {level: {a: b}}":          "a map where a text is expected",
		"- {host: [a]}":              "a list where a text is expected",
		"- {again: [{level: [a]}]}":  "a list where a text is expected",
		"- {any: {x: [a]}}":          "a list where a value of another type is expected",
		"- {any: {x: {level: [a]}}}": "a list where a text is expected",
	} {
		var x list
		err := yaml.Unmarshal([]byte(text), &x)
		require.Error(t, err, text)
		require.EqualError(t, yamlfault.Error([]byte(text), err, x), "line 1: "+want, text)
	}
}

func refuse(t *testing.T, text []byte) error {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		if err := decoder.Decode(new(yaml.Node)); err != nil {
			return err
		}
	}
}

func FuzzExplain(f *testing.F) {
	f.Add("a: b: c")
	f.Add(head + "    - run: |\n        x\n     - [")
	f.Fuzz(func(t *testing.T, text string) {
		if err := yaml.NewDecoder(strings.NewReader(text)).Decode(new(yaml.Node)); err != nil {
			line, detail := yamlfault.Explain([]byte(text), err)
			require.NotEmpty(t, detail)
			require.LessOrEqual(t, line, 1+strings.Count(text, "\n"))
		}
	})
}
