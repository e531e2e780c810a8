package webhooks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/webhooks"
)

func TestSign(t *testing.T) {
	t.Parallel()
	// printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 'correct horse battery staple'
	require.Equal(t, "v1=c0385f8b18e8d1ac37a3c0d93fa81ef49dc339ee11bf4170c61942141ce6cd98",
		webhooks.Sign(secret, "1700000000", []byte(`{"a":1}`)))
}
