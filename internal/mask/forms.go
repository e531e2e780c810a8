package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

const (
	// leastForm is the length of the shortest part of an encoding that is
	// hidden for itself: shorter ones are in too many texts.
	leastForm = 8
	// base64Line is where the base64 command breaks lines (GNU coreutils).
	base64Line = 76
)

// forms returns the other ways to write a text that programs are likely to: in
// base64, alone or within something longer, in URLs, and in JSON.
func forms(text string) []string {
	out := append(base64Forms(text), jsonForms(text)...)
	query := url.QueryEscape(text)
	component := strings.ReplaceAll(query, "+", "%20") // as JavaScript and curl have it; Python leaves slashes
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
			if rest = rest[base64Line:]; len(rest) >= leastForm && len(rest) <= base64Line {
				out = append(out, rest)
			}
		}
		// Within something longer what comes before decides on how the text lies
		// in groups of three bytes. The characters that hold bits of the
		// neighbours too are left.
		for before := range 3 {
			encoded := alphabet.EncodeToString(append(make([]byte, before), text...))
			first, last := (before*8+5)/6, (before+len(text))*8/6
			if last-first >= leastForm {
				out = append(out, encoded[first:last])
			}
		}
	}
	return out
}

// jsonForms returns how JSON may hold the text, with characters of HTML escaped
// and without.
func jsonForms(text string) []string {
	var out []string
	for _, html := range []bool{true, false} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if err := e.Encode(text); err != nil {
			continue // no string can not be encoded
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
