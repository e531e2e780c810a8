package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/contrib/opentelemetry"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/drover-run/drover/codec"
	"github.com/drover-run/drover/config"
	"github.com/drover-run/drover/contract"
)

// workflowRetention is how long Temporal keeps closed workflows where Drover
// makes the namespace itself. The records keep runs for as long as is wanted.
const workflowRetention = 72 * time.Hour

// temporalOptions are the options of a client: what the configuration says,
// and Temporal's own environment and profile where it is silent.
func temporalOptions(cfg config.Temporal, logger *slog.Logger, telemetry *telemetry) (client.Options, error) {
	options, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{ConfigFileProfile: cfg.Profile})
	if err != nil {
		return client.Options{}, fmt.Errorf("reading the temporal profile: %w", err)
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
		OnError: func(err error) { logger.Debug("recording a temporal metric failed", "error", err) },
	})
	return options, nil
}

// openCodec returns what encrypts payloads, nil where nothing does.
func openCodec(cfg config.Temporal) (*codec.Codec, error) {
	if cfg.CodecKeysFile == "" {
		return nil, nil //nolint:nilnil // none is a good answer
	}
	keys, err := readKeys("temporal.codec_keys_file", "", cfg.CodecKeysFile)
	if err != nil {
		return nil, err
	}
	return codec.New(keys), nil
}

// codecHandler serves the codec to Temporal's own tools, nil where there is none.
func codecHandler(cfg config.Temporal) (http.Handler, error) {
	payloads, err := openCodec(cfg)
	if err != nil || payloads == nil {
		return nil, err
	}
	return payloads.Handler(), nil
}

// dialTemporal connects, waiting for a server that is not up yet until ctx ends.
func dialTemporal(ctx context.Context, options client.Options, p *process) (client.Client, error) {
	pause := 100 * time.Millisecond
	for {
		c, err := client.DialContext(ctx, options)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connecting to temporal at %s: %w", options.HostPort, err)
		}
		p.logger.WarnContext(ctx, "temporal does not answer yet", "address", options.HostPort, "retry_in", pause, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// setUpNamespace makes the namespace and its search attributes where they do
// not exist. It needs the rights of an operator, once.
func setUpNamespace(ctx context.Context, c client.Client, namespace string) error {
	_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        namespace,
		Description:                      "runs of Drover",
		WorkflowExecutionRetentionPeriod: durationpb.New(workflowRetention),
	})
	var exists *serviceerror.NamespaceAlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("making the temporal namespace %s: %w", namespace, err)
	}
	return addAttributes(ctx, c, namespace)
}

// addAttributes adds the search attributes that the namespace does not have
// yet: one that was made by an older build lacks the newer ones.
func addAttributes(ctx context.Context, c client.Client, namespace string) error {
	there, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("listing the search attributes: %w", err)
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
		return fmt.Errorf("adding the search attributes: %w", err)
	}
	return nil
}

// lazyTemporal returns a client that connects when it is first used.
func lazyTemporal(_ context.Context, options client.Options, _ *process) (client.Client, error) {
	c, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("making a temporal client: %w", err)
	}
	return c, nil
}

func temporalAnswers(ctx context.Context, c client.Client) error {
	if _, err := c.CheckHealth(ctx, nil); err != nil {
		return fmt.Errorf("temporal does not answer: %w", err)
	}
	return nil
}
