package clients

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

// secretScan holds all texts in which the tests search for secrets: responses of
// the API and stored files, both raw and decoded.
type secretScan struct {
	t     *testing.T
	texts []scannedText
}

// scannedText is one of these texts and its source, such as "answer", "file ..." or
// "packed ...".
type scannedText struct{ source, text string }

func newSecretScan(t *testing.T) *secretScan {
	t.Helper()
	return &secretScan{t: t}
}

func (h *secretScan) add(source, text string) {
	if text != "" {
		h.texts = append(h.texts, scannedText{source, text})
	}
}

// zstdMagic begins every compressed file: compacted logs and archives.
var zstdMagic = []byte{0x28, 0xB5, 0x2F, 0xFD}

// sqliteMagic begins every SQLite database.
var sqliteMagic = []byte("SQLite format 3\x00")

// frameData matches the output in a stored frame, in base64.
var frameData = regexp.MustCompile(`"d":"([A-Za-z0-9+/]+=*)"`)

// addFiles adds all files below a directory. Besides the raw content it adds the
// decompressed content of compressed files, the row values of databases, and for
// each directory the concatenated output of the frames in its files.
func (h *secretScan) addFiles(dir string) {
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

func (h *secretScan) addFile(path, name string, data []byte, output *strings.Builder) {
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

// outputOf returns the output in a compacted log. There a JSON line precedes the
// bytes of each frame and says how many they are.
func outputOf(packed []byte) string {
	var output strings.Builder
	for len(packed) > 0 {
		line, rest, _ := bytes.Cut(packed, []byte("\n"))
		var frame struct {
			Size int `json:"l"`
		}
		if json.Unmarshal(line, &frame) != nil || frame.Size > len(rest) {
			break // the file is not a log
		}
		output.Write(rest[:frame.Size])
		packed = rest[frame.Size:]
	}
	return output.String()
}

// rowsOf returns the values of all rows of a database. A search of the raw file
// could miss a value that spans two database pages.
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

// sources returns the sources that contain a text, either as it is or in base64,
// also as a part of a longer encoded text.
func (h *secretScan) sources(text string) []string {
	forms := []string{text}
	for before := range 3 { // bytes before the text in its first base64 group
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, before), text...))
		const group = 4
		forms = append(forms, encoded[group:len(encoded)-2*group])
	}
	var found []string
	for _, s := range h.texts {
		if slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(s.text, form) }) {
			found = append(found, s.source)
		}
	}
	return found
}

// withPrefix returns the sources that begin with a prefix.
func withPrefix(sources []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(sources), func(p string) bool { return !strings.HasPrefix(p, word) })
}
