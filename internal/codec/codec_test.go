package codec_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	sdktemporal "go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/drover-run/drover/internal/codec"
	"github.com/drover-run/drover/internal/keyring"
)

func newKey(t *testing.T, id string) string {
	t.Helper()
	line, err := keyring.NewKey(id)
	require.NoError(t, err)
	return line
}

func newCodec(t *testing.T, lines ...string) *codec.Codec {
	t.Helper()
	keys, err := keyring.Parse(strings.Join(lines, "\n"))
	require.NoError(t, err)
	return codec.New(keys)
}

func TestCodec(t *testing.T) {
	t.Parallel()
	first, second := newKey(t, "k1"), newKey(t, "k2")
	old, both, other := newCodec(t, first), newCodec(t, second, first), newCodec(t, second)
	plain, err := converter.GetDefaultDataConverter().ToPayloads("visible", nil, 7)
	require.NoError(t, err)

	sealed, err := old.Encode(plain.GetPayloads())
	require.NoError(t, err)
	require.Len(t, sealed, 3)
	for _, p := range sealed {
		require.Equal(t, "binary/encrypted", string(p.GetMetadata()["encoding"]))
		require.Equal(t, "k1", string(p.GetMetadata()["encryption-key-id"]))
		require.NotContains(t, string(p.GetData()), "visible")
	}
	opened, err := both.Decode(sealed)
	require.NoError(t, err)
	require.True(t, proto.Equal(plain, &commonpb.Payloads{Payloads: opened}))

	_, err = other.Decode(sealed)
	require.ErrorIs(t, err, keyring.ErrUnknownKey)
	sealed[0].Data[len(sealed[0].GetData())-1] ^= 1
	_, err = old.Decode(sealed)
	require.Error(t, err)
	same, err := both.Decode(plain.GetPayloads())
	require.NoError(t, err, "payloads in the clear can be read")
	require.True(t, proto.Equal(plain, &commonpb.Payloads{Payloads: same}))
}

// TestCodec_seals_what_claims_to_be_sealed encodes payloads with the metadata
// of an encrypted payload: the sender sets the metadata.
func TestCodec_seals_what_claims_to_be_sealed(t *testing.T) {
	t.Parallel()
	c := newCodec(t, newKey(t, "k1"))
	forged := &commonpb.Payload{
		Metadata: map[string][]byte{"encoding": []byte("binary/encrypted"), "encryption-key-id": []byte("made-up")}, Data: []byte("visible"),
	}
	sealed, err := c.Encode([]*commonpb.Payload{forged})
	require.NoError(t, err)
	require.NotContains(t, string(sealed[0].GetData()), "visible")
	opened, err := c.Decode(sealed)
	require.NoError(t, err, "every reader of a history can decode it")
	require.True(t, proto.Equal(forged, opened[0]))
}

// frontend is a fake of Temporal whose first calls fail.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer

	fails int
	calls chan *workflowservice.RespondActivityTaskFailedRequest
}

func (f *frontend) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{}, nil
}

func (f *frontend) RespondActivityTaskFailed(
	_ context.Context, in *workflowservice.RespondActivityTaskFailedRequest,
) (*workflowservice.RespondActivityTaskFailedResponse, error) {
	f.calls <- in
	if f.fails--; f.fails >= 0 {
		return nil, status.Error(codes.Unavailable, "not yet")
	}
	return &workflowservice.RespondActivityTaskFailedResponse{}, nil
}

// TestCodec_seals_once_per_attempt makes the SDK retry a call: no attempt
// encrypts what an earlier attempt encrypted.
func TestCodec_seals_once_per_attempt(t *testing.T) {
	t.Parallel()
	server, service := grpc.NewServer(), &frontend{fails: 2, calls: make(chan *workflowservice.RespondActivityTaskFailedRequest, 3)}
	workflowservice.RegisterWorkflowServiceServer(server, service)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	c := newCodec(t, newKey(t, "k1"))
	dial, err := c.DialOptions()
	require.NoError(t, err)
	temporal, err := client.Dial(client.Options{
		HostPort: listener.Addr().String(), ConnectionOptions: client.ConnectionOptions{DialOptions: dial},
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	require.NoError(t, temporal.CompleteActivity(t.Context(), []byte("token"), nil, sdktemporal.NewApplicationError("hidden", "type", "detail")))
	for range 3 {
		got := (<-service.calls).GetFailure()
		require.Equal(t, "Encoded failure", got.GetMessage())
		opened, err := c.Decode(append(got.GetApplicationFailureInfo().GetDetails().GetPayloads(), got.GetEncodedAttributes()))
		require.NoError(t, err)
		require.Len(t, opened, 2)
		require.Equal(t, `"detail"`, string(opened[0].GetData()))
		require.Contains(t, string(opened[1].GetData()), "hidden")
	}
}
