// Command identity is an OpenID Connect provider for tests: the example server of
// zitadel/oidc, with groups, keys that can be replaced, and a client for the device
// flow. The calls below /control are for tests.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// The clients: the gateway, and the command line.
const (
	gatewayClient = "drover"
	gatewaySecret = "secret"
	deviceClient  = "drover-cli"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9998", "listen address, on loopback")
	redirect := flag.String("redirect", "", "URLs to which browsers may be sent back, separated by commas")
	withInput := flag.Bool("with-input", false, "end with the standard input, and so with the process that holds its other end")
	flag.Parse()
	if *withInput {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	if err := serve(*listen, strings.Split(*redirect, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(listen string, redirects []string) error {
	issuer := "http://" + listen + "/"
	store := &provider{
		Storage: storage.NewStorageWithClients(storage.NewUserStore(issuer), map[string]*storage.Client{
			gatewayClient: storage.WebClient(gatewayClient, gatewaySecret, redirects...),
			deviceClient:  storage.NativeClient(deviceClient, redirects...),
		}),
		groups: map[string][]string{"id1": {"developers"}},
	}
	if err := store.rotate(); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", store.faulty(exampleop.SetupServer(issuer, store, slog.New(slog.DiscardHandler), false)))
	store.control(mux)
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

// key is a key for signatures, as the library wants it.
type key struct {
	id      string
	private *rsa.PrivateKey
}

func (k key) ID() string                                  { return k.id }
func (k key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k key) Key() any                                    { return k.private }

type publicKey struct{ key }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return &k.private.PublicKey }

// client is a client of which some properties differ from those of the example.
type client struct{ op.Client }

// GrantTypes implements op.Client.
func (c client) GrantTypes() []oidc.GrantType {
	if c.GetID() == deviceClient {
		return []oidc.GrantType{oidc.GrantTypeDeviceCode, oidc.GrantTypeRefreshToken}
	}
	return c.Client.GrantTypes()
}

// IDTokenUserinfoClaimsAssertion implements op.Client: the ID tokens of the gateway have
// no name and no groups, so that it must ask for them.
func (c client) IDTokenUserinfoClaimsAssertion() bool { return c.GetID() == deviceClient }

// PostLogoutRedirectURIs implements op.Client.
func (c client) PostLogoutRedirectURIs() []string {
	var all []string
	for _, uri := range c.RedirectURIs() {
		all = append(all, strings.TrimSuffix(uri, "login/callback"))
	}
	return all
}

// provider is the storage of the example with groups and several keys.
type provider struct {
	*storage.Storage

	mu     sync.Mutex
	keys   []key
	groups map[string][]string // by user
	fault  fault
}

// fault is what is wrong with the user info.
type fault struct {
	Status  int  `json:"status"`   // of the answer; 0: it is answered
	NoEmail bool `json:"no_email"` // the claim is missing
}

// rotate makes a new key. The previous ones are withdrawn.
func (p *provider) rotate() error {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = []key{{id: rand.Text(), private: private}}
	return nil
}

func (p *provider) signing() key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[0]
}

// SigningKey implements op.Storage.
func (p *provider) SigningKey(context.Context) (op.SigningKey, error) { return p.signing(), nil }

// SignatureAlgorithms implements op.Storage.
func (p *provider) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

// KeySet implements op.Storage.
func (p *provider) KeySet(context.Context) ([]op.Key, error) {
	return []op.Key{publicKey{p.signing()}}, nil
}

// GetClientByClientID implements op.Storage.
func (p *provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{c}, nil
}

// SetUserinfoFromToken implements op.Storage, for the user info.
func (p *provider) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	if err := p.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin); err != nil {
		return err
	}
	p.addGroups(info)
	if p.faultNow().NoEmail {
		info.UserInfoEmail = oidc.UserInfoEmail{}
	}
	return nil
}

// faulty answers requests for the user info with an error if a test wants it.
func (p *provider) faulty(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := p.faultNow().Status; status != 0 && r.URL.Path == "/userinfo" {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (p *provider) faultNow() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest, for ID tokens.
func (p *provider) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	if err := p.Storage.SetUserinfoFromRequest(ctx, info, token, scopes); err != nil {
		return err
	}
	if len(scopes) > 0 {
		info.Subject = token.GetSubject()
		p.addGroups(info)
	}
	return nil
}

func (p *provider) addGroups(info *oidc.UserInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info.AppendClaims("groups", p.groups[info.Subject])
}

// control adds the calls for tests.
func (p *provider) control(mux *http.ServeMux) {
	mux.HandleFunc("POST /control/rotate", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.rotate(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("POST /control/groups/{user}", func(w http.ResponseWriter, r *http.Request) {
		var groups []string
		if err := json.NewDecoder(r.Body).Decode(&groups); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.groups[r.PathValue("user")] = groups
	})
	mux.HandleFunc("POST /control/userinfo", func(w http.ResponseWriter, r *http.Request) {
		var f fault
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.fault = f
	})
	// end ends the logins of a user: the refresh tokens cease to be valid.
	mux.HandleFunc("POST /control/end/{user}", func(w http.ResponseWriter, r *http.Request) {
		for _, id := range []string{gatewayClient, deviceClient} {
			if err := p.TerminateSession(r.Context(), r.PathValue("user"), id); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	})
	mux.HandleFunc("POST /control/approve/{code}/{user}", func(w http.ResponseWriter, r *http.Request) {
		if err := p.CompleteDeviceAuthorization(r.Context(), r.PathValue("code"), r.PathValue("user")); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
		}
	})
	// sign returns a token with any claims. Claims of time are in seconds from now.
	mux.HandleFunc("POST /control/sign", func(w http.ResponseWriter, r *http.Request) {
		claims := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&claims); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, name := range []string{"exp", "nbf", "iat"} {
			if seconds, ok := claims[name].(float64); ok {
				claims[name] = time.Now().Unix() + int64(seconds)
			}
		}
		text, err := p.sign(claims, r.URL.Query().Get("key"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write([]byte(text))
	})
}

// sign signs claims. id replaces the name of the key, if it is not "".
func (p *provider) sign(claims map[string]any, id string) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	k := p.signing()
	if id == "" {
		id = k.id
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: k.private, KeyID: id}}, nil)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
