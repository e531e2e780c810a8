// Command words fails when a file of the repository uses a word or a Go
// identifier that this project replaced by a standard term. The lists
// words.txt and identifiers.txt beside this file name the replacements.
//
//	go run ./internal/words
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
)

//go:embed words.txt
var wordList string

//go:embed identifiers.txt
var identifierList string

// Lists holds the replacement of each forbidden word and identifier.
type Lists struct {
	Words       map[string]string // by lower-case word
	Identifiers map[string]string // by identifier
}

// Finding is one use of a forbidden name.
type Finding struct {
	File    string
	Line    int // from 1
	Name    string
	Instead string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %q is not a term of this project: write %s", f.File, f.Line, f.Name, f.Instead)
}

func main() {
	n, err := check(os.Stdout, Lists{Words: parse(wordList), Identifiers: parse(identifierList)})
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	if n > 0 {
		fmt.Fprintf(os.Stdout, "%d forbidden words; the lists are internal/words/*.txt\n", n)
		os.Exit(1)
	}
}

// check writes a line for each finding in the files that git tracks below the
// working directory, and returns their number. It leaves out the files that
// .gitattributes marks as generated, such as the built web UI.
func check(w io.Writer, lists Lists) (int, error) {
	out, err := exec.Command("git", "ls-files", "-z", "--", ":(exclude,attr:linguist-generated)").Output() //nolint:noctx // it reads the index and ends
	if err != nil {
		return 0, fmt.Errorf("list the files of the repository: %w", err)
	}
	n := 0
	for file := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if path.Dir(file) == "internal/words" && path.Ext(file) == ".txt" {
			continue
		}
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // deleted, but not in the index yet
		}
		if err != nil {
			return n, fmt.Errorf("read %s: %w", file, err)
		}
		for _, f := range lists.Find(file, text) {
			n++
			fmt.Fprintln(w, f)
		}
	}
	return n, nil
}

// parse reads lines of a name, a tab and what to write instead.
func parse(list string) map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(list) {
		if name, instead, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && !strings.HasPrefix(line, "#") {
			names[name] = instead
		}
	}
	return names
}

// word matches the words of a text and those that a name in camel case is made of.
var word = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// Find returns the uses of forbidden names in a file and in its name. It does not
// read the contents of binary files, such as compressed histories.
func (l Lists) Find(file string, text []byte) []Finding {
	found := l.words(file, path.Base(file), 1)
	if bytes.IndexByte(text, 0) >= 0 {
		return found
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		found = append(found, l.words(file, lines.Text(), n)...)
	}
	if path.Ext(file) == ".go" {
		found = append(found, l.identifiers(file, text)...)
	}
	return found
}

func (l Lists) words(file, line string, n int) []Finding {
	var found []Finding
	for _, w := range word.FindAllString(line, -1) {
		lower := strings.ToLower(w)
		instead, ok := l.Words[lower]
		if !ok {
			instead, ok = l.Words[strings.TrimSuffix(lower, "s")]
		}
		if ok {
			found = append(found, Finding{File: file, Line: n, Name: w, Instead: instead})
		}
	}
	return found
}

func (l Lists) identifiers(file string, text []byte) []Finding {
	set := token.NewFileSet()
	at := set.AddFile(file, -1, len(text))
	var s scanner.Scanner
	s.Init(at, text, nil, 0)
	var found []Finding
	for {
		pos, tok, name := s.Scan()
		if tok == token.EOF {
			return found
		}
		if instead, ok := l.Identifiers[name]; ok && tok == token.IDENT {
			found = append(found, Finding{File: file, Line: set.Position(pos).Line, Name: name, Instead: instead})
		}
	}
}
