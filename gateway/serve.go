package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Timeouts and limits that are not configurable.
const (
	headerTimeout  = 10 * time.Second // for the headers of a request; a client that sends nothing holds a connection no longer
	idleTimeout    = 2 * time.Minute  // for connections between requests; longer than the idle timeout of most proxies
	maxHeaderBytes = 64 << 10         // of all headers of a request; Drover has no long ones
)

// Run serves on the listener until ctx ends, and then closes it. After that it
// accepts no new calls, ends the streams, and waits for the other calls for at
// most Options.ShutdownTimeout.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	if s.auth == nil && !loopbackAddress(listener.Addr()) {
		return errors.Join(errNoTokens(listener.Addr().String()), listener.Close())
	}
	server := &http.Server{
		Handler:           s.echo,
		TLSConfig:         s.opts.TLS,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.opts.ReadTimeout,
		WriteTimeout:      s.opts.ReadTimeout + s.opts.RequestTimeout + s.opts.WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- s.serve(server, listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the gateway: %w", err)
	case <-ctx.Done():
	}
	return s.shutDown(context.WithoutCancel(ctx), server, served)
}

func (s *Server) serve(server *http.Server, listener net.Listener) error {
	if s.opts.TLS != nil {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}

func (s *Server) shutDown(ctx context.Context, server *http.Server, served <-chan error) error {
	s.streams.endAll()
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.ShutdownTimeout, errors.New("the shutdown timeout has expired"))
	defer cancel()
	err := server.Shutdown(ctx)
	if err != nil {
		s.logger.WarnContext(ctx, "failed to finish all calls before the shutdown timeout", "error", context.Cause(ctx))
		err = server.Close()
	}
	<-served //nolint:errcheck // the error says that the server is closed
	if err != nil {
		return fmt.Errorf("shut down the gateway: %w", err)
	}
	return nil
}

// loopbackAddress reports whether only this host can connect to address.
func loopbackAddress(address net.Addr) bool {
	switch a := address.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
