package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/config"
)

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"DROVER_GATEWAY_LISTEN is no variable of Drover; did you mean DROVER_GATEWAY__LISTEN?",
		"DROVER_TOKENS is no variable of Drover",
	}, config.UnknownVariables([]string{
		"PATH=/bin", "DROVER_TOKENS=a=b", "DROVER_GATEWAY_LISTEN=:80", "DROVER_GATEWAY__LISTEN=:80", "DROVER_TOKEN=t", "DROVER_RUN_ID=r", "DROVER_OUTPUT=/o", "=C:=C:",
	}))
}
