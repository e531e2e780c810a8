package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

const (
	// minForm is the minimal length of a part of an encoding that is masked by
	// itself. Shorter parts would match too many other texts.
	minForm = 8
	// base64Line is where the base64 command breaks lines (GNU coreutils).
	base64Line = 76
)

// forms returns the encodings of a text that programs are likely to print: in
// base64, alone or as a part of a longer text, in URLs, and in JSON.
func forms(text string) []string {
	out := append(base64Forms(text), jsonForms(text)...)
	query := url.QueryEscape(text)
	component := strings.ReplaceAll(query, "+", "%20") // as JavaScript and curl encode; Python does not escape slashes
	for _, escaped := range []string{query, component, strings.ReplaceAll(component, "%2F", "/"), url.PathEscape(text)} {
		out = append(out, escaped, lowerHex(escaped))
	}
	return out
}

func base64Forms(text string) []string {
	var out []string
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		alone := alphabet.EncodeToString([]byte(text))
		padded := alone + strings.Repeat("=", (4-len(alone)%4)%4)
		out = append(out, padded, alone)
		for rest := padded; len(rest) > base64Line; {
			out = append(out, rest[:base64Line])
			if rest = rest[base64Line:]; len(rest) >= minForm && len(rest) <= base64Line {
				out = append(out, rest)
			}
		}
		// In a longer text, the number of bytes before this text decides its
		// alignment to groups of three bytes. The characters at both ends that also
		// encode bits of other bytes are left out.
		for before := range 3 {
			encoded := alphabet.EncodeToString(append(make([]byte, before), text...))
			first, last := (before*8+5)/6, (before+len(text))*8/6
			if last-first >= minForm {
				out = append(out, encoded[first:last])
			}
		}
	}
	return out
}

// jsonForms returns the text as a JSON string without quotes, with HTML characters
// escaped and not escaped.
func jsonForms(text string) []string {
	var out []string
	for _, html := range []bool{true, false} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if err := e.Encode(text); err != nil {
			continue // cannot happen: every string can be encoded
		}
		out = append(out, strings.TrimSuffix(b.String()[1:], "\"\n"))
	}
	return out
}

// lowerHex writes the hexadecimal digits of percent-encodings in lower case.
func lowerHex(escaped string) string {
	parts := strings.Split(escaped, "%")
	for i := 1; i < len(parts); i++ {
		parts[i] = strings.ToLower(parts[i][:2]) + parts[i][2:]
	}
	return strings.Join(parts, "%")
}
