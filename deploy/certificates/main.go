// Command certificates writes the certificate authorities for the image, which is made FROM
// scratch, in the form in which Linux distributions keep them: Mozilla's, as Go's own
// golang.org/x/crypto/x509roots maintains them. It leaves out those that Mozilla trusts only
// for certificates issued before a date, because a file cannot say so.
package main

import (
	"bytes"
	"encoding/pem"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	out := flag.String("out", "", "the file to write")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "certificates:", err)
		os.Exit(1)
	}
}

func write(name string) error {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return fmt.Errorf("encode a certificate: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("create the directory: %w", err)
	}
	if err := os.WriteFile(name, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the certificates: %w", err)
	}
	return nil
}
