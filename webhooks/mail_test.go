package webhooks_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http/httptest"
	"net/mail"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/testenv"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec"
)

const (
	mailUser     = "ci"
	mailPassword = "correct horse"
)

// mailServer is an SMTP server.
type mailServer struct {
	t       testing.TB
	address string
	tls     *tls.Config // of clients

	mu    sync.Mutex
	rcpt  func(to string) error
	data  func(*smtp.Conn) error // before the e-mail is accepted
	mails []received
	users []string // that logged in
}

type received struct {
	from   string
	to     []string
	header mail.Header
	parts  map[string]string // by their media type
}

type mailOptions struct{ implicit, plain bool }

func (w *env) newMailServer(o mailOptions) *mailServer {
	w.t.Helper()
	certified := httptest.NewTLSServer(nil) // for its certificate
	defer certified.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	m := &mailServer{t: w.t, tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &mailSession{m: m, conn: c}, nil }))
	server.Domain, server.MaxRecipients, server.MaxMessageBytes = "localhost", 100, 1<<20
	server.ErrorLog = discardLog{}
	if !o.plain {
		server.TLSConfig = &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}
	}
	server.AllowInsecureAuth = o.plain
	address, listener := w.listen()
	m.address = "smtp://" + address
	if o.implicit {
		m.address = "smtps://" + address
		listener = tls.NewListener(listener, server.TLSConfig)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	w.t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return m
}

type discardLog struct{}

func (discardLog) Printf(string, ...any) {}
func (discardLog) Println(...any)        {}

// mailSession implements smtp.AuthSession.
type mailSession struct {
	m    *mailServer
	conn *smtp.Conn
	got  received
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		if _, encrypted := s.conn.TLSConnectionState(); !encrypted {
			s.m.t.Errorf("the password was sent in plain text")
		}
		if user != mailUser || password != mailPassword {
			return errors.New("wrong password")
		}
		s.m.users = append(s.m.users, user)
		return nil
	}), nil
}

func (s *mailSession) Reset()        { s.got = received{} }
func (s *mailSession) Logout() error { return nil }

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	s.got.from = from
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.m.mu.Lock()
	refuse := s.m.rcpt
	s.m.mu.Unlock()
	if refuse != nil {
		if err := refuse(to); err != nil {
			return err
		}
	}
	s.got.to = append(s.got.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	if err := s.got.read(r); err != nil {
		s.m.t.Errorf("read an e-mail: %v", err)
	}
	s.m.mu.Lock()
	fault := s.m.data
	s.m.mu.Unlock()
	if fault != nil {
		if err := fault(s.conn); err != nil {
			return err
		}
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.mails = append(s.m.mails, s.got)
	return nil
}

// read parses an e-mail strictly.
func (g *received) read(r io.Reader) error {
	msg, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	g.header, g.parts = msg.Header, map[string]string{}
	for _, name := range []string{"From", "To", "Subject", "Date", "Message-Id", "Mime-Version", "Content-Type"} {
		if len(msg.Header[name]) != 1 {
			return fmt.Errorf("header %s is there %d times", name, len(msg.Header[name]))
		}
	}
	if _, err := msg.Header.Date(); err != nil {
		return err
	}
	media, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if media != "multipart/alternative" {
		return g.part(media, msg.Header.Get("Content-Transfer-Encoding"), msg.Body)
	}
	for parts := multipart.NewReader(msg.Body, params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		media, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil {
			return err
		}
		if err := g.part(media, part.Header.Get("Content-Transfer-Encoding"), part); err != nil {
			return err
		}
	}
}

func (g *received) part(media, encoding string, body io.Reader) error {
	if encoding != "quoted-printable" {
		return fmt.Errorf("encoding %q", encoding)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(body))
	g.parts[media] = string(text)
	return err
}

func (m *mailServer) set(rcpt func(string) error, data func(*smtp.Conn) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rcpt, m.data = rcpt, data
}

func (m *mailServer) await(n int) []received {
	m.t.Helper()
	var got []received
	testenv.Await(m.t, func() (bool, string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		got = append([]received(nil), m.mails...)
		return len(got) >= n, fmt.Sprintf("%d of %d e-mails", len(got), n)
	})
	require.Len(m.t, got, n)
	return got
}

func (w *env) putMail(m *mailServer, change func(*run.WebhookSpec)) {
	w.t.Helper()
	w.opts.MailTLS = m.tls
	hook := run.WebhookSpec{
		Name: "ci", Format: run.WebhookEmail, URL: m.address, Enabled: true, WebhookSettings: run.WebhookSettings{
			Email: &run.Email{From: "Drover <ci@example.com>", To: []string{"a@example.com", "b@example.com"}},
		},
	}
	if change != nil {
		change(&hook)
	}
	require.Empty(w.t, spec.ValidateWebhook(hook))
	_, _, err := w.store.PutWebhook(w.t.Context(), hook)
	require.NoError(w.t, err)
}

func withUser(s *run.WebhookSpec) { s.Email.Username, s.Secret = mailUser, mailPassword }

func TestDeliver_mail(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]mailOptions{"starttls": {}, "implicit": {implicit: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				m := w.newMailServer(o)
				w.opts.RunURL = "https://ci.example.com/runs/{run}"
				w.putMail(m, withUser)
				w.deliver()
				id := w.finish("/team/api", "Zürich <script>alert(1)</script>\r\nBcc: x@example.com", true, false)
				w.awaitApproval("/team/api")
				got := m.await(2)
				require.Equal(t, []string{mailUser, mailUser}, m.users)
				require.Equal(t, "ci@example.com", got[0].from)
				require.Equal(t, []string{"a@example.com", "b@example.com"}, got[0].to)
				require.Empty(t, got[0].header.Get("Bcc"))
				require.Equal(t, "auto-generated", got[0].header.Get("Auto-Submitted"))
				subject, err := new(mime.WordDecoder).DecodeHeader(got[0].header.Get("Subject"))
				require.NoError(t, err)
				require.Equal(t, "Zürich <script>alert(1)</script>  Bcc: x@example.com #1 failed", subject)
				require.Contains(t, got[0].parts["text/plain"], "drover runs get "+string(id))
				require.Contains(t, got[0].parts["text/plain"], "https://ci.example.com/runs/"+string(id))
				html := got[0].parts["text/html"]
				require.Contains(t, html, "&lt;script&gt;")
				require.NotContains(t, html, "<script")
				require.Contains(t, html, `href="https://ci.example.com/runs/`+string(id)+`"`)
				require.Contains(t, got[1].parts["text/plain"], "drover runs approve")
				require.NotEqual(t, got[0].header.Get("Message-Id"), got[1].header.Get("Message-Id"))
			})
		})
	}
}

func TestDeliver_mail_of_a_template(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		m := w.newMailServer(mailOptions{plain: true})
		w.putMail(m, func(s *run.WebhookSpec) {
			s.Email.StartTLS = run.StartTLSOptional
			s.Template = &run.MessageTemplate{Title: "{{.Name}}\r\nBcc: x@example.com", Text: "{{.Name}} <b>{{.Outcome}}</b>"}
		})
		w.deliver()
		w.finish("/team/api", "nightly", false, false)
		got := m.await(1)[0]
		require.Equal(t, "nightly  Bcc: x@example.com", got.header.Get("Subject"))
		require.Equal(t, map[string]string{"text/plain": "nightly <b>success</b>\r\n"}, got.parts)
	})
}

// TestDeliver_mail_tries_again injects faults. An e-mail is sent again until the
// server accepts it for all recipients, always with the same id.
func TestDeliver_mail_tries_again(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rcpt   func(string) error
		data   func(*smtp.Conn) error
		reason string
	}{
		"a_recipient_is_refused": {rcpt: func(to string) error {
			if to == "b@example.com" {
				return &smtp.SMTPError{Code: 550, Message: "no such\tuser"}
			}
			return nil
		}, reason: "550"},
		"busy":     {data: func(*smtp.Conn) error { return &smtp.SMTPError{Code: 451, Message: "later"} }, reason: "451"},
		"breaks":   {data: func(c *smtp.Conn) error { return c.Conn().Close() }, reason: "the mail server did not accept the e-mail"},
		"shutdown": {rcpt: func(string) error { return &smtp.SMTPError{Code: 421, Message: "bye"} }, reason: "421"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				m := w.newMailServer(mailOptions{implicit: true})
				m.set(tt.rcpt, tt.data)
				w.putMail(m, withUser)
				w.deliver()
				w.finish("/team/api", "first", true, false)
				hook := w.await(func(h run.Webhook) bool { return h.Failures > 1 })
				require.Contains(t, hook.LastError, tt.reason)
				require.NotContains(t, hook.LastError, mailPassword)
				m.mu.Lock()
				before := len(m.mails) // a reply that is lost makes duplicates
				m.mu.Unlock()
				m.set(nil, nil)
				w.await(func(h run.Webhook) bool { return h.Failures == 0 && h.Delivered > 0 })
				m.mu.Lock()
				defer m.mu.Unlock()
				require.Greater(t, len(m.mails), before)
				for _, got := range m.mails {
					require.Equal(t, m.mails[0].header.Get("Message-Id"), got.header.Get("Message-Id"), "receivers recognize duplicates")
					require.Equal(t, m.mails[0].header.Get("Date"), got.header.Get("Date"))
					require.Len(t, got.to, 2)
				}
			})
		})
	}
}

func TestDeliver_mail_server_hangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t)
		m := w.newMailServer(mailOptions{implicit: true})
		free := make(chan struct{})
		m.set(nil, func(*smtp.Conn) error { <-free; return errors.New("too late") })
		t.Cleanup(sync.OnceFunc(func() { close(free) }))
		w.putMail(m, withUser)
		ended, _ := w.deliver()
		w.finish("/team/api", "first", true, false)
		hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
		require.Contains(t, hook.LastError, "timeout")
		// A change takes effect at once, also while an attempt hangs.
		require.NoError(t, w.store.DeleteWebhook(t.Context(), "ci"))
		require.Equal(t, deliverResult{reason: "the webhook was deleted"}, <-ended)
	})
}

// TestDeliver_mail_is_encrypted checks that neither an e-mail nor a password is
// sent to a server without TLS, or with a certificate of another.
func TestDeliver_mail_is_encrypted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		o      mailOptions
		change func(*env, *run.WebhookSpec)
	}{
		"no_starttls":         {mailOptions{plain: true}, func(*env, *run.WebhookSpec) {}},
		"unknown_certificate": {mailOptions{implicit: true}, func(w *env, _ *run.WebhookSpec) { w.opts.MailTLS = nil }},
		"unknown_at_starttls": {mailOptions{}, func(w *env, _ *run.WebhookSpec) { w.opts.MailTLS = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t)
				m := w.newMailServer(tt.o)
				w.putMail(m, func(s *run.WebhookSpec) {
					withUser(s)
					tt.change(w, s)
				})
				w.deliver()
				w.finish("/team/api", "first", true, false)
				hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
				require.Contains(t, hook.LastError, "no connection to the mail server")
				m.mu.Lock()
				defer m.mu.Unlock()
				require.Empty(t, m.mails)
				require.Empty(t, m.users)
			})
		})
	}
	t.Run("wrong_password", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newEnv(t)
			m := w.newMailServer(mailOptions{implicit: true})
			w.putMail(m, func(s *run.WebhookSpec) {
				withUser(s)
				s.Secret = "hunter2"
			})
			w.deliver()
			w.finish("/team/api", "first", true, false)
			hook := w.await(func(h run.Webhook) bool { return h.Failures > 0 })
			require.NotContains(t, hook.LastError, "hunter2")
			require.NotContains(t, hook.LastError, "\n")
		})
	})
}
