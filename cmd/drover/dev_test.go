//go:build !noembedded

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContinuing(t *testing.T) {
	t.Parallel()
	require.Equal(t, "stopping: 1 running task continues; drover dev on /d adopts it, and drover runs stop ends it then", continuing(1, "/d"))
	require.Equal(t, "stopping: 2 running tasks continue; drover dev on /d adopts them, and drover runs stop ends them then", continuing(2, "/d"))
}
