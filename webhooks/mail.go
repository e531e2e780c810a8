package webhooks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net"
	netmail "net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/message"
)

// letter is the content of an e-mail. It is the same for each attempt.
type letter struct {
	subject, text string
	html          string // "" if a template has written the text
	date          time.Time
}

// mailPage is the HTML form of e-mails. html/template escapes the texts of users.
const mailPage = `<!DOCTYPE html>
<html><body style="font-family: sans-serif">
<h3>{{.Title}}</h3>
<table>{{range .Facts}}<tr><td><b>{{.Name}}</b></td><td>{{.Value}}</td></tr>
{{end}}</table>
{{with .Failed}}<p><b>Failed tasks</b></p>
<ul>{{range .}}<li>{{.}}</li>
{{end}}</ul>{{end}}
<p><code>{{.Message.Command}}</code></p>
{{with .Message.Link}}<p><a href="{{.}}">Open the run</a></p>{{end}}
</body></html>
`

// newLetter returns the e-mail of a message.
func newLetter(t *run.MessageTemplate, m message.Data, date time.Time) (*letter, error) {
	w := word(t, m, func(text string) string { return text })
	l := &letter{subject: w.title, text: w.text, date: date}
	if l.text != "" {
		return l, nil
	}
	var text strings.Builder
	text.WriteString(w.title + "\n\n")
	for _, f := range m.Facts() {
		text.WriteString(f.Name + ": " + f.Value + "\n")
	}
	failed := m.FailedLines()
	if len(failed) > 0 {
		text.WriteString("\nFailed tasks:\n- " + strings.Join(failed, "\n- ") + "\n")
	}
	text.WriteString("\n" + m.Command + "\n")
	if m.Link != "" {
		text.WriteString(m.Link + "\n")
	}
	l.text = text.String()
	html, err := template.New("mail").Parse(mailPage)
	if err != nil {
		return nil, fmt.Errorf("parse the page of e-mails: %w", err)
	}
	var page bytes.Buffer
	err = html.Execute(&page, struct {
		Title   string
		Facts   []message.Fact
		Failed  []string
		Message message.Data
	}{w.title, m.Facts(), failed, m})
	l.html = page.String()
	return l, err
}

// messageID returns the id of an e-mail. It is the same for each attempt, so that
// receivers recognize duplicates, and different for another webhook of that name.
func messageID(w records.Delivery, delivery, domain string) string {
	sum := sha256.Sum256([]byte(w.Name + "\x00" + w.CreatedAt.UTC().Format(time.RFC3339Nano) + "\x00" + delivery))
	return "drover-" + hex.EncodeToString(sum[:16]) + "@" + domain
}

// mail makes one attempt to send an e-mail. All recipients get it, or none.
func (d *Deliverer) mail(ctx context.Context, w records.Delivery, b batch) error {
	msg, err := newMail(w, b)
	if err != nil {
		return &deliveryError{reason: "the e-mail cannot be written: " + message.Clean(err.Error(), maxMailError)}
	}
	msg.SetUserAgent(d.opts.UserAgent)
	client, closeAll, err := d.mailClient(ctx, w)
	if err != nil {
		return &deliveryError{reason: "the URL cannot be called"}
	}
	defer closeAll()
	conn, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return &deliveryError{reason: "no connection to the mail server: " + mailError(ctx, err)}
	}
	if err := client.SendWithSMTPClient(conn, msg); err != nil && !msg.IsDelivered() {
		return &deliveryError{reason: "the mail server did not accept the e-mail: " + mailError(ctx, err)}
	}
	// The server has accepted the e-mail: a later error does not matter.
	_ = client.CloseWithSMTPClient(conn)
	return nil
}

const maxMailError = 500

func mailError(ctx context.Context, err error) string {
	return message.Clean(errorReason(ctx, err), maxMailError)
}

func newMail(w records.Delivery, b batch) (*mail.Msg, error) {
	if w.Email == nil || b.letter == nil {
		return nil, errors.New("there are no addresses")
	}
	from, err := netmail.ParseAddress(w.Email.From)
	if err != nil {
		return nil, fmt.Errorf("read the sender: %w", err)
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	msg := mail.NewMsg()
	if err := errors.Join(msg.From(w.Email.From), msg.To(w.Email.To...)); err != nil {
		return nil, err
	}
	msg.Subject(b.letter.subject)
	msg.SetDateWithValue(b.letter.date)
	msg.SetMessageIDWithValue(messageID(w, b.id, domain))
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // no automatic answers: RFC 3834
	msg.SetGenHeader(HeaderDelivery, b.id)
	msg.SetBodyString(mail.TypeTextPlain, b.letter.text)
	if b.letter.html != "" {
		msg.AddAlternativeString(mail.TypeTextHTML, b.letter.html)
	}
	return msg, nil
}

// The default ports: submission, with STARTTLS and with TLS from the begin.
const (
	smtpPort  = "587"
	smtpsPort = "465"
)

// mailClient returns a client for the mail server of a webhook. closeAll closes its
// connection, as the end of ctx does.
func (d *Deliverer) mailClient(ctx context.Context, w records.Delivery) (_ *mail.Client, closeAll func(), _ error) {
	u, err := url.Parse(w.URL)
	if err != nil {
		return nil, nil, err
	}
	implicit := u.Scheme == "smtps"
	standard := smtpPort
	if implicit {
		standard = smtpsPort
	}
	port, err := strconv.Atoi(cmp.Or(u.Port(), standard))
	if err != nil {
		return nil, nil, err
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.opts.MailTLS != nil {
		secure = d.opts.MailTLS.Clone()
	}
	secure.ServerName = u.Hostname()
	closeConn := func() {}
	dial := func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := d.opts.Dial(dialing, network, address)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		closeConn = func() {
			stop()
			_ = conn.Close()
		}
		if !implicit {
			return conn, nil
		}
		encrypted := tls.Client(conn, secure)
		return encrypted, encrypted.HandshakeContext(dialing)
	}
	opts := []mail.Option{
		mail.WithPort(port), mail.WithTimeout(d.opts.Timeout), mail.WithTLSConfig(secure), mail.WithDialContextFunc(dial), mail.WithoutNoop(),
	}
	switch {
	case implicit:
		opts = append(opts, mail.WithSSL())
	case w.Email.StartTLS == run.StartTLSOptional:
		opts = append(opts, mail.WithTLSPolicy(mail.TLSOpportunistic))
	default:
		opts = append(opts, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if w.Email.Username != "" {
		// The library sends no password in plain text without TLS.
		opts = append(opts, mail.WithUsername(w.Email.Username), mail.WithPassword(w.Secret.Reveal()),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlain, mail.SMTPAuthLogin))
	}
	client, err := mail.NewClient(u.Hostname(), opts...)
	return client, func() { closeConn() }, err
}
