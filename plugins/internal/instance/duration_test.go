package instance_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/plugins/internal/instance"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	var settings struct {
		Stop struct {
			Timeout instance.Duration `json:"timeout"`
		} `json:"stop"`
	}
	for text, want := range map[string]time.Duration{`"1m30s"`: 90 * time.Second, `1.5`: 1500 * time.Millisecond} {
		require.NoError(t, json.Unmarshal([]byte(`{"stop": {"timeout": `+text+`}}`), &settings))
		require.Equal(t, want, settings.Stop.Timeout.Or(0))
	}
	for text, given := range map[string]string{`true`: "bool", `"soon"`: "string", `[1]`: "array", `{}`: "object"} {
		require.ErrorContains(t, json.Unmarshal([]byte(`{"stop": {"timeout": `+text+`}}`), &settings),
			"cannot unmarshal "+given+" into Go struct field .stop.timeout of type instance.Duration")
	}
}
