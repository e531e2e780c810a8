package test

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver
)

// haystack is all in which secrets are looked for: what was answered, and what
// is kept, as it lies there and as whoever opens it reads it.
type haystack struct {
	t     *testing.T
	straw []straw
}

// straw is one text of it, and where it is from: such as "answer", "file ..."
// or "packed ...".
type straw struct{ place, text string }

func newHaystack(t *testing.T) *haystack {
	t.Helper()
	return &haystack{t: t}
}

func (h *haystack) add(place, text string) {
	if text != "" {
		h.straw = append(h.straw, straw{place, text})
	}
}

// zstdMagic begins what is compressed: packed logs and archives.
var zstdMagic = []byte{0x28, 0xB5, 0x2F, 0xFD}

// sqliteMagic begins a database.
var sqliteMagic = []byte("SQLite format 3\x00")

// frameData is the output in a stored frame.
var frameData = regexp.MustCompile(`"d":"([A-Za-z0-9+/]+=*)"`)

// addFiles adds all files below a directory: as they are; unpacked, where they
// are packed; the values of each row, of databases; and the output in the frames
// of all files of a directory, one after the other.
func (h *haystack) addFiles(dir string) {
	h.t.Helper()
	frames := map[string]*strings.Builder{}
	defer func() {
		for name, output := range frames {
			h.add("frames of "+name, output.String())
		}
	}()
	require.NoError(h.t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		output := frames[filepath.Dir(name)]
		if output == nil {
			output = new(strings.Builder)
			frames[filepath.Dir(name)] = output
		}
		h.addFile(path, name, data, output)
		return nil
	}))
}

func (h *haystack) addFile(path, name string, data []byte, output *strings.Builder) {
	h.t.Helper()
	h.add("file "+name, string(data))
	switch {
	case bytes.HasPrefix(data, zstdMagic):
		z, err := zstd.NewReader(bytes.NewReader(data))
		require.NoError(h.t, err)
		defer z.Close()
		unpacked, err := io.ReadAll(z)
		require.NoError(h.t, err, name)
		h.add("packed "+name, string(unpacked))
		output.WriteString(outputOf(unpacked))
	case bytes.HasPrefix(data, sqliteMagic):
		h.add("rows of "+name, rowsOf(h.t, path))
	}
	for _, found := range frameData.FindAllSubmatch(data, -1) {
		text, err := base64.StdEncoding.DecodeString(string(found[1]))
		if err == nil {
			output.Write(text)
		}
	}
}

// outputOf returns the output in a packed log: behind the line of each frame
// are as many bytes as it says.
func outputOf(packed []byte) string {
	var output strings.Builder
	for len(packed) > 0 {
		line, rest, _ := bytes.Cut(packed, []byte("\n"))
		var frame struct {
			Size int `json:"l"`
		}
		if json.Unmarshal(line, &frame) != nil || frame.Size > len(rest) {
			break // no log
		}
		output.Write(rest[:frame.Size])
		packed = rest[frame.Size:]
	}
	return output.String()
}

// rowsOf returns the values of all rows of a database, which a page may cut.
func rowsOf(t *testing.T, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var tables []string
	names, err := db.QueryContext(t.Context(), `SELECT name FROM sqlite_master WHERE type = 'table'`)
	require.NoError(t, err)
	for names.Next() {
		var name string
		require.NoError(t, names.Scan(&name))
		tables = append(tables, name)
	}
	require.NoError(t, names.Err())
	require.NoError(t, names.Close())
	var text strings.Builder
	for _, table := range tables {
		rows, err := db.QueryContext(t.Context(), `SELECT * FROM "`+table+`"`)
		require.NoError(t, err)
		columns, err := rows.Columns()
		require.NoError(t, err)
		values, to := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		for rows.Next() {
			require.NoError(t, rows.Scan(to...))
			for _, v := range values {
				text.Write(v)
				text.WriteByte('\n')
			}
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
	}
	return text.String()
}

// places returns where a text is: itself, or what it is in base64, also within
// something longer.
func (h *haystack) places(text string) []string {
	forms := []string{text}
	for before := range 3 { // by how many bytes of the longer text begin a group
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, before), text...))
		const group = 4
		forms = append(forms, encoded[group:len(encoded)-2*group])
	}
	var found []string
	for _, s := range h.straw {
		if slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(s.text, form) }) {
			found = append(found, s.place)
		}
	}
	return found
}

// within returns those places that begin with a word.
func within(places []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(places), func(p string) bool { return !strings.HasPrefix(p, word) })
}
