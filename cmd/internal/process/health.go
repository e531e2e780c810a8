package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/config"
)

// healthTimeout is shorter than the usual timeout of a health check.
const healthTimeout = 2 * time.Second

// HealthCommand returns the command that checks the process on this host.
func HealthCommand() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether the process on this host is ready",
		Long: `Check whether the process with the same configuration on this host is ready; exit 0 if so.
It is meant for health checks of containers, whose image has no other program.`,
		Example: "  drover health\n  drover health --url http://127.0.0.1:9090/readyz",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url == "" {
				cfg, err := config.Load(config.Source{Environ: os.Environ()})
				if err != nil {
					return err
				}
				url = readyURL(cfg)
			}
			return checkReady(cmd.Context(), url)
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "address of /readyz (default: telemetry.listen, else gateway.listen)")
	return cmd
}

func readyURL(cfg config.Config) string {
	listen := cfg.Telemetry.Listen
	if listen == "" {
		listen = cfg.Gateway.Listen
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || host == "" || net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz"
}

func checkReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, healthTimeout, errors.New("health check timed out"))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("%s: %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
