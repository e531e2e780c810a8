package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/contrib/opentelemetry"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/internal/codec"
	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/retry"
)

// workflowRetention is how long Temporal keeps closed workflows in a namespace
// that Drover creates. The records keep runs for as long as the retention says.
const workflowRetention = 72 * time.Hour

// temporalOptions returns the options of a client: the configuration, and
// Temporal's own environment and profile for settings that are empty.
func temporalOptions(cfg config.Temporal, logger *slog.Logger, telemetry *telemetry) (client.Options, error) {
	options, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{ConfigFileProfile: cfg.Profile})
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
	payloads, err := openCodec(cfg)
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
	options.Logger = sdklog.NewStructuredLogger(logger.With("component", "temporal_sdk"))
	options.MetricsHandler = opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter:   telemetry.meter,
		OnError: func(err error) { logger.Debug("failed to record a temporal metric", "error", err) },
	})
	return options, nil
}

// openCodec returns the codec that encrypts payloads, or nil if none is
// configured.
func openCodec(cfg config.Temporal) (*codec.Codec, error) {
	if cfg.CodecKeysFile == "" {
		return nil, nil //nolint:nilnil // nil means no encryption
	}
	keys, err := readKeys("temporal.codec_keys_file", "", cfg.CodecKeysFile)
	if err != nil {
		return nil, err
	}
	return codec.New(keys), nil
}

// codecHandler returns the handler of the codec for Temporal's own tools, or nil
// if there is no codec.
func codecHandler(cfg config.Temporal) (http.Handler, error) {
	payloads, err := openCodec(cfg)
	if err != nil || payloads == nil {
		return nil, err
	}
	return payloads.Handler(), nil
}

// dialTemporal connects to a server. It waits until ctx ends for a server that is
// not up yet.
func dialTemporal(ctx context.Context, options client.Options, p *process) (client.Client, error) {
	c, err := backoff.Retry(ctx, func() (client.Client, error) {
		return client.DialContext(ctx, options)
	}, backoff.WithBackOff(retry.Doubling(100*time.Millisecond, 5*time.Second)), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, pause time.Duration) {
			p.logger.WarnContext(ctx, "failed to connect to temporal; trying again", "address", options.HostPort, "retry_in", pause, "error", err)
		}))
	if err != nil {
		return nil, fmt.Errorf("connect to temporal at %s: %w", options.HostPort, err)
	}
	return c, nil
}

// setUpNamespace creates the namespace and its search attributes if they do not
// exist. The first time it needs the rights of an operator.
func setUpNamespace(ctx context.Context, c client.Client, namespace string) error {
	_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        namespace,
		Description:                      "runs of Drover",
		WorkflowExecutionRetentionPeriod: durationpb.New(workflowRetention),
	})
	var exists *serviceerror.NamespaceAlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("create the temporal namespace %s: %w", namespace, err)
	}
	return addAttributes(ctx, c, namespace)
}

// addAttributes adds missing search attributes: a namespace of an older build
// lacks newer ones.
func addAttributes(ctx context.Context, c client.Client, namespace string) error {
	there, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list the search attributes: %w", err)
	}
	missing := contract.Attributes()
	for name := range there.GetCustomAttributes() {
		delete(missing, name)
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	var known *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &known) {
		return fmt.Errorf("add the search attributes: %w", err)
	}
	return nil
}

// lazyTemporal returns a client that connects on first use.
func lazyTemporal(_ context.Context, options client.Options, _ *process) (client.Client, error) {
	c, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("create a temporal client: %w", err)
	}
	return c, nil
}

func temporalAnswers(ctx context.Context, c client.Client) error {
	if _, err := c.CheckHealth(ctx, nil); err != nil {
		return fmt.Errorf("check temporal: %w", err)
	}
	return nil
}
