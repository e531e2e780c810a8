// Package ui serves the built files of the web UI, which are part of the program.
//
// The sources are in the folder web; "make web" builds the files of dist, which
// are committed, so that building Drover needs only Go.
package ui

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed all:dist
var dist embed.FS

// ContentSecurityPolicy of all pages: everything comes from the gateway itself.
// Scripts and styles are files; style attributes are set by scripts only, which
// the policy allows.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; font-src 'self'; " +
	"connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const (
	index = "index.html"
	// The names of the files below assets contain a digest of the content.
	immutable = "public, max-age=31536000, immutable"
)

// Handler serves the UI. Each path without a file is a page of the UI: the script
// of the index page shows it.
type Handler struct {
	files map[string]file
}

type file struct {
	content []byte
	packed  []byte // with gzip; nil if that does not save much
	kind    string
	cache   string
}

// New reads the built files, and prepares the index page for the path below which
// browsers reach the gateway: "" for the root, or a path such as /drover. An error means
// that the program was built without them.
func New(basePath string) (*Handler, error) { return read(dist, basePath) }

func read(built fs.FS, basePath string) (*Handler, error) {
	h := &Handler{files: map[string]file{}}
	root, err := fs.Sub(built, "dist")
	if err != nil {
		return nil, fmt.Errorf("read the web UI: %w", err)
	}
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if name == index {
			content = prepare(content, basePath)
		}
		f := file{content: content, kind: mime.TypeByExtension(path.Ext(name)), cache: "no-cache"}
		if strings.HasPrefix(name, "assets/") {
			f.cache = immutable
		}
		if f.packed, err = pack(content); err != nil {
			return err
		}
		h.files[name] = f
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the web UI: %w", err)
	}
	if _, ok := h.files[index]; !ok {
		return nil, fmt.Errorf("read the web UI: it has no %s", index)
	}
	return h, nil
}

// addresses are the addresses of files in the index page. They are relative there, as in
// the other files, but the page is served at many paths.
var addresses = regexp.MustCompile(`\b(src|href)="(?:\./|/)`)

// prepare returns the index page with the addresses of its files, and with the base path
// for the scripts.
func prepare(page []byte, basePath string) []byte {
	base := html.EscapeString(basePath)
	page = addresses.ReplaceAll(page, []byte(`$1="`+strings.ReplaceAll(base, "$", "$$")+`/`))
	return bytes.Replace(page, []byte("</head>"), []byte(`  <meta name="drover-base" content="`+base+`" />`+"\n  </head>"), 1)
}

// Serves reports whether the handler answers a request: those of its files, and
// those of browsers for pages.
func (h *Handler) Serves(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if _, ok := h.files[strings.TrimPrefix(r.URL.Path, "/")]; ok {
		return true
	}
	// The name of an executor or a task may look like that of a file.
	page := path.Ext(r.URL.Path) == "" || strings.HasPrefix(r.URL.Path, "/operations/") || strings.HasPrefix(r.URL.Path, "/runs/")
	return page && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := h.files[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok {
		f = h.files[index]
	}
	head := w.Header()
	head.Set("Content-Type", f.kind)
	head.Set("Cache-Control", f.cache)
	head.Set("Content-Security-Policy", ContentSecurityPolicy)
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Vary", "Accept-Encoding")
	if f.packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		head.Set("Content-Encoding", "gzip")
		head.Set("Content-Length", strconv.Itoa(len(f.packed)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(f.packed)
		}
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}

func pack(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if out.Len() > len(content)*9/10 {
		return nil, nil
	}
	return out.Bytes(), nil
}
