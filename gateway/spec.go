package gateway

import (
	"context"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

// readRequest reads a specification of a media type of the contract, which may
// have an update token beside its keys. It is checked here too, and not by the
// service alone, because only the text tells the lines of its faults.
func readRequest(ctx context.Context, data []byte, media string) (*run.Spec, string, error) {
	format := spec.FormatYAML
	if media == mediaJSON {
		format = spec.FormatJSON
	}
	var token string
	parsed, err := spec.Parser{Extra: map[string]*string{"changegroup_token": &token}}.ValidateContext(ctx, data, format)
	return parsed, token, err
}
