package webhooks

import (
	"encoding/json"
	"strings"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/message"
)

// The message of an incoming webhook of Slack, with the blocks that are used.
// All texts of users are plain_text, which has no markup, no mentions and no
// links.
type (
	slackMessage struct {
		Text   string       `json:"text"` // of the notification
		Blocks []slackBlock `json:"blocks"`
	}
	slackBlock struct {
		Type     string      `json:"type"`
		Text     *slackText  `json:"text,omitempty"`
		Fields   []slackText `json:"fields,omitempty"`
		Elements []slackText `json:"elements,omitempty"`
	}
	slackText struct {
		Type string `json:"type"`
		Text string `json:"text"`
		// Emoji false keeps the colons of a plain_text; Verbatim keeps the plain
		// parts of a mrkdwn text free of links and mentions.
		Emoji    *bool `json:"emoji,omitempty"`
		Verbatim *bool `json:"verbatim,omitempty"`
	}
)

func slackPlain(text string) slackText {
	return slackText{Type: "plain_text", Text: text, Emoji: new(false)}
}

func slackMarkup(text string) slackText {
	return slackText{Type: "mrkdwn", Text: text, Verbatim: new(true)}
}

func slackEscape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// slackBody returns the body of a message.
func slackBody(t *run.MessageTemplate, m message.Data) ([]byte, error) {
	w := word(t, m, slackEscape)
	out := slackMessage{Text: slackEscape(w.title), Blocks: []slackBlock{{Type: "header", Text: new(slackPlain(w.title))}}}
	if w.text != "" {
		out.Blocks = append(out.Blocks, slackBlock{Type: "section", Text: new(slackMarkup(w.text))})
		return json.Marshal(out)
	}
	section := slackBlock{Type: "section"}
	for _, f := range m.Facts() {
		section.Fields = append(section.Fields, slackPlain(f.Name+": "+f.Value))
	}
	out.Blocks = append(out.Blocks, section)
	if lines := m.FailedLines(); len(lines) > 0 {
		out.Blocks = append(out.Blocks, slackBlock{Type: "section", Text: new(slackPlain("Failed tasks:\n" + strings.Join(lines, "\n")))})
	}
	last := slackBlock{Type: "context", Elements: []slackText{slackPlain(m.Command)}}
	if m.Link != "" {
		last.Elements = append(last.Elements, slackMarkup("<"+slackEscape(m.Link)+"|open the run>"))
	}
	out.Blocks = append(out.Blocks, last)
	return json.Marshal(out)
}
