package gateway

import (
	"context"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// readRequest reads a specification, which may have an update token beside its
// keys. The service validates specifications too, but only the text has the line
// numbers of faults.
func readRequest(ctx context.Context, data []byte, media string) (*run.Spec, string, error) {
	format := spec.FormatYAML
	if media == mediaJSON {
		format = spec.FormatJSON
	}
	var token string
	parsed, err := spec.Parser{Extra: map[string]*string{"changegroup_token": &token}}.ValidateContext(ctx, data, format)
	return parsed, token, err
}
