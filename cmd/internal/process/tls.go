package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/drover-run/drover/internal/reload"
)

// ServerTLS returns the configuration of a server with the certificate in two
// files. Connections that begin after the files were replaced use the new
// certificate.
func ServerTLS(certFile, keyFile string, logger *slog.Logger) (*tls.Config, error) {
	pair, err := reload.Open(logger, func(files [][]byte) (*tls.Certificate, error) {
		cert, err := tls.X509KeyPair(files[0], files[1])
		return &cert, err
	}, certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load the certificate: %w", err)
	}
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Current(), nil },
		MinVersion:     tls.VersionTLS12,
	}, nil
}

// ClientTLS returns the current configuration of a client. Its authorities and
// certificates are in files that may be replaced, so each connection asks for it.
type ClientTLS func() *tls.Config

// Authorities returns the configuration of a client that trusts the certificate
// authorities in a file; "" means those of the host.
func Authorities(file, serverName string, logger *slog.Logger) (ClientTLS, error) {
	if file == "" {
		return func() *tls.Config { return &tls.Config{ServerName: serverName, MinVersion: tls.VersionTLS12} }, nil
	}
	roots, err := reload.Open(logger, func(files [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(files[0]) {
			return nil, errors.New("it has no certificate")
		}
		return pool, nil
	}, file)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities: %w", err)
	}
	return func() *tls.Config {
		return &tls.Config{RootCAs: roots.Current(), ServerName: serverName, MinVersion: tls.VersionTLS12}
	}, nil
}

// DialOption makes gRPC connections with the current configuration.
func (c ClientTLS) DialOption() grpc.DialOption {
	return grpc.WithTransportCredentials(&currentTLS{TransportCredentials: credentials.NewTLS(c()), config: c})
}

// currentTLS are credentials for which each handshake uses the current
// configuration.
type currentTLS struct {
	credentials.TransportCredentials

	config ClientTLS
}

// ClientHandshake implements credentials.TransportCredentials.
func (c *currentTLS) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.config()).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (c *currentTLS) Clone() credentials.TransportCredentials {
	return &currentTLS{TransportCredentials: c.TransportCredentials.Clone(), config: c.config}
}
