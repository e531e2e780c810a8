package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

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

// deliveryID returns the id of a batch from its first and last event.
func deliveryID(name string, first, last int64) string {
	return fmt.Sprintf("%s.%d-%d", name, first, last)
}
