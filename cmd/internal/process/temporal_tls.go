package process

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/drover-run/drover/internal/reload"
)

// profileOptions returns the options of a client for a profile of Temporal's
// configuration. The files of its certificates are read again when they change.
func profileOptions(profile envconfig.ClientConfigProfile, logger *slog.Logger) (client.Options, error) {
	options, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil || options.ConnectionOptions.TLS == nil || profile.TLS == nil {
		return options, err
	}
	from := *profile.TLS
	// Each path has a field for the content of the file, and one excludes the other.
	var paths []string
	var contents []func(*envconfig.ClientConfigTLS, []byte)
	add := func(path string, set func(*envconfig.ClientConfigTLS, []byte)) {
		if path != "" {
			paths, contents = append(paths, path), append(contents, set)
		}
	}
	add(from.ClientCertPath, func(c *envconfig.ClientConfigTLS, data []byte) { c.ClientCertPath, c.ClientCertData = "", data })
	add(from.ClientKeyPath, func(c *envconfig.ClientConfigTLS, data []byte) { c.ClientKeyPath, c.ClientKeyData = "", data })
	add(from.ServerCACertPath, func(c *envconfig.ClientConfigTLS, data []byte) { c.ServerCACertPath, c.ServerCACertData = "", data })
	if len(paths) == 0 {
		return options, nil
	}
	current, err := reload.Open(logger, func(files [][]byte) (*tls.Config, error) {
		read := from
		for i, set := range contents {
			set(&read, files[i])
		}
		options, err := (&envconfig.ClientConfigProfile{TLS: &read}).ToClientOptions(envconfig.ToClientOptionsRequest{})
		return options.ConnectionOptions.TLS, err
	}, paths...)
	if err != nil {
		return client.Options{}, fmt.Errorf("read the certificates for temporal: %w", err)
	}
	// The options keep a configuration too: the SDK derives other settings from it.
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, ClientTLS(current.Current).DialOption())
	return options, nil
}
