package codec_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/drover-run/drover/codec"
	"github.com/drover-run/drover/keyring"
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
	again, err := both.Encode(sealed)
	require.NoError(t, err)
	require.Equal(t, sealed, again, "what is encrypted is passed on")

	_, err = other.Decode(sealed)
	require.ErrorIs(t, err, keyring.ErrUnknownKey)
	sealed[0].Data[len(sealed[0].GetData())-1] ^= 1
	_, err = old.Decode(sealed)
	require.Error(t, err)
	same, err := both.Decode(plain.GetPayloads())
	require.NoError(t, err, "what was told in the clear can be read")
	require.True(t, proto.Equal(plain, &commonpb.Payloads{Payloads: same}))
}
