package process

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/contrib/opentelemetry"
	sdklog "go.temporal.io/sdk/log"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/codec"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/logging"
	"github.com/drover-run/drover/internal/retry"
)

// TemporalOptions returns the options of a client: the configuration, and
// Temporal's own environment and profile for settings that are empty.
func TemporalOptions(cfg config.Temporal, logger *slog.Logger, telemetry *Telemetry) (client.Options, error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{ConfigFileProfile: cfg.Profile})
	if err != nil {
		return client.Options{}, fmt.Errorf("read the temporal profile: %w", err)
	}
	options, err := profileOptions(profile, logger)
	if err != nil {
		return client.Options{}, fmt.Errorf("read the temporal profile: %w", err)
	}
	if cfg.Address != "" {
		options.HostPort = cfg.Address
	}
	if cfg.Namespace != "" {
		options.Namespace = cfg.Namespace
	}
	if options.Namespace == "" || options.Namespace == client.DefaultNamespace {
		options.Namespace = contract.Namespace
	}
	payloads, err := openCodec(cfg, logger)
	if err != nil {
		return client.Options{}, err
	}
	if payloads != nil {
		dial, err := payloads.DialOptions()
		if err != nil {
			return client.Options{}, err
		}
		options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, dial...)
	}
	options.Logger = sdklog.NewStructuredLogger(logging.Library(logger).With("component", "temporal_sdk"))
	options.MetricsHandler = opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter:   telemetry.meter,
		OnError: func(err error) { logger.Debug("failed to record a temporal metric", "error", err) },
	})
	return options, nil
}

// openCodec returns the codec that encrypts payloads, or nil if none is
// configured.
func openCodec(cfg config.Temporal, logger *slog.Logger) (*codec.Codec, error) {
	if cfg.CodecKeysFile == "" {
		return nil, nil //nolint:nilnil // nil means no encryption
	}
	keys, err := ReadKeys("temporal.codec_keys_file", "", cfg.CodecKeysFile, logger)
	if err != nil {
		return nil, err
	}
	return codec.New(keys), nil
}

// CodecHandler returns the handler of the codec for Temporal's own tools, or nil
// if there is no codec.
func CodecHandler(cfg config.Temporal, logger *slog.Logger) (http.Handler, error) {
	payloads, err := openCodec(cfg, logger)
	if err != nil || payloads == nil {
		return nil, err
	}
	return payloads.Handler(), nil
}

// The pauses between attempts to connect to Temporal.
const (
	dialFirst = 100 * time.Millisecond
	dialLimit = 5 * time.Second
)

// DialTemporal connects to a server. It waits until ctx ends for a server that is
// not up yet.
func DialTemporal(ctx context.Context, options client.Options, p *Process) (client.Client, error) {
	c, err := backoff.Retry(ctx, func() (client.Client, error) {
		return client.DialContext(ctx, options)
	}, backoff.WithBackOff(retry.Doubling(dialFirst, dialLimit)), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, pause time.Duration) {
			p.Logger.WarnContext(ctx, "failed to connect to temporal; trying again", "address", options.HostPort, "retry_in", pause, "error", err)
		}))
	if err != nil {
		return nil, fmt.Errorf("connect to temporal at %s: %w", options.HostPort, err)
	}
	return c, nil
}

// LazyTemporal returns a client that connects on first use.
func LazyTemporal(_ context.Context, options client.Options, _ *Process) (client.Client, error) {
	c, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("create a temporal client: %w", err)
	}
	return c, nil
}

// TemporalAnswers returns an error if Temporal does not answer.
func TemporalAnswers(ctx context.Context, c client.Client) error {
	if _, err := c.CheckHealth(ctx, nil); err != nil {
		return fmt.Errorf("check temporal: %w", err)
	}
	return nil
}
