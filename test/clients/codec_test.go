package clients

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/drover-run/drover/api"
	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/keyring"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/test/harness"
)

// TestCodec runs with encrypted Temporal payloads, and decodes them as
// Temporal's own tools do.
func TestCodec(t *testing.T) {
	t.Parallel()
	line, err := keyring.NewKey("k1")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "codec.keys")
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	env := []string{"DROVER_TEMPORAL__CODEC_KEYS_FILE=" + file, "DROVER_GATEWAY__CODEC_ORIGINS=https://temporal.example.com"}
	parts := harness.StartParts(t, "2", map[harness.Part][]string{harness.Gateway: env, harness.Control: env, harness.Executor: env})
	id := parts.Submit(`{name: hidden, group: /test/codec, tasks: {
		planned-in-private: {steps: [{run: 'true'}]},
		broken-in-private: {steps: [{run: 'exit 3'}]},
		after: {depends: [planned-in-private], steps: [{run: 'true'}]}}}`).ID
	require.Equal(t, api.ResultFailed, parts.AwaitPhase(id, api.PhaseFinished).Result)

	sealed := sealedHistory(t, parts.Temporal(), id, "in-private")

	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: sealed})
	require.NoError(t, err)
	status, answer, err := parts.Do(t.Context(), http.MethodPost, "/codec/decode", "application/json", string(body))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)
	var opened struct {
		Payloads []json.RawMessage `json:"payloads"`
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &opened))
	require.Len(t, opened.Payloads, len(sealed))
	require.NotContains(t, answer, "YmluYXJ5L2VuY3J5cHRlZA", "every payload is decrypted")

	anonymous := harness.NewClient(t, parts.Server, "invalid")
	status, _, err = anonymous.Do(t.Context(), http.MethodPost, "/codec/decode", "application/json", string(body))
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, parts.Server+"/codec/decode", nil)
	require.NoError(t, err)
	for _, origin := range []string{"https://temporal.example.com", "https://elsewhere.example.com"} {
		req.Header.Set("Origin", origin)
		req.Header.Set("Access-Control-Request-Method", http.MethodPost)
		resp, err := harness.HTTPClient(t).Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, origin == "https://temporal.example.com", resp.Header.Get("Access-Control-Allow-Origin") == origin)
	}
}

// sealedHistory returns the payloads of a run's history. It checks that all of
// them are encrypted and that no event contains the hidden text.
func sealedHistory(t *testing.T, address, id, hidden string) []*commonpb.Payload {
	t.Helper()
	temporal, err := client.Dial(client.Options{HostPort: address, Namespace: contract.Namespace})
	require.NoError(t, err)
	defer temporal.Close()
	var sealed []*commonpb.Payload
	events := temporal.GetWorkflowHistory(t.Context(), contract.RunWorkflowID(run.ID(id)), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		require.NoError(t, proxy.VisitPayloads(t.Context(), event, proxy.VisitPayloadsOptions{
			SkipSearchAttributes: true,
			Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
				sealed = append(sealed, payloads...)
				return payloads, nil
			},
		}))
		require.NotContains(t, protojson.Format(event), hidden)
	}
	require.NotEmpty(t, sealed)
	for _, p := range sealed {
		require.Equal(t, "binary/encrypted", string(p.GetMetadata()["encoding"]))
	}
	return sealed
}

// TestDev_codec runs all of Drover in one process with encrypted payloads. It
// also checks that the telemetry listener refuses foreign hosts and origins.
func TestDev_codec(t *testing.T) {
	t.Parallel()
	line, err := keyring.NewKey("k1")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "codec.keys")
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	temporal, telemetry := harness.FreeAddress(t), harness.FreeAddress(t)
	dev := harness.StartDev(t, []string{"DROVER_TEMPORAL__CODEC_KEYS_FILE=" + file, "DROVER_TELEMETRY__LISTEN=" + telemetry}, "--temporal", temporal)
	id := dev.Submit(`{name: hidden, group: /test/codec, tasks: {planned-in-private: {steps: [{run: 'true'}]}}}`).ID
	require.Equal(t, api.ResultSuccess, dev.AwaitPhase(id, api.PhaseFinished).Result)
	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: sealedHistory(t, temporal, id, "in-private")})
	require.NoError(t, err)
	status, answer, err := dev.Do(t.Context(), http.MethodPost, "/codec/decode", "application/json", string(body))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)

	for _, c := range []struct {
		host, origin string
		status       int
	}{{telemetry, "", http.StatusOK}, {telemetry, "http://evil.example", http.StatusForbidden}, {"evil.example", "", http.StatusForbidden}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+telemetry+"/metrics", nil)
		require.NoError(t, err)
		req.Host = c.host
		req.Header.Set("Origin", c.origin)
		resp, err := harness.HTTPClient(t).Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode, c)
	}
}
