package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"

	"github.com/drover-run/drover/run"
)

// The headers of a delivery.
const (
	HeaderWebhook   = "Drover-Webhook"   // the name of the webhook
	HeaderDelivery  = "Drover-Delivery"  // the id of the batch, the same for each attempt
	HeaderTimestamp = "Drover-Timestamp" // of the attempt, in seconds since 1970
	HeaderSignature = "Drover-Signature" // what Sign returns
)

// Sign returns the signature header of a body sent at a time: v1= and the
// hexadecimal HMAC-SHA256, under the secret, of the timestamp, a dot and the
// body.
func Sign(secret run.Secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

// deliveryID returns the ID of a batch, which depends on its events alone: the
// first and the last, and a checksum of all if there are others between them.
func deliveryID(name string, events ...run.Event) string {
	first, last := events[0].Number, events[len(events)-1].Number
	id := fmt.Sprintf("%s.%d-%d", name, first, last)
	if int64(len(events)) == last-first+1 {
		return id
	}
	sum := crc32.NewIEEE()
	for _, e := range events {
		_, _ = fmt.Fprintln(sum, e.Number)
	}
	return fmt.Sprintf("%s.%08x", id, sum.Sum32())
}
