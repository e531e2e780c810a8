package testenv

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/freeport"
)

// s3Variable names the environment variable that enables the tests of object
// stores. Its value is "auto", as make test sets it: each test starts a server.
const s3Variable = "DROVER_TEST_S3"

// S3 is a bucket of an S3-compatible server, which ends with the test.
type S3 struct {
	// URL opens the bucket, with the credentials in Environment.
	URL         string
	Environment map[string]string
	Dir         string // where the server keeps the bucket
}

// RequireS3 returns a new bucket. Without DROVER_TEST_S3 the test is skipped, or
// fails if DROVER_REQUIRE names s3.
func RequireS3(t testing.TB) S3 {
	t.Helper()
	Use(t, "s3")
	if os.Getenv(s3Variable) != "auto" {
		Missing(t, "s3", s3Variable+" is not set", "run make verify STAGES=services, which sets it to auto and builds a server once")
	}
	const region, bucket = "us-east-1", "drover"
	binary := BuildProgram(t, filepath.Join("test", "objectstore"), "github.com/versity/versitygw/cmd/versitygw")
	port, err := freeport.On(t.Context(), "127.0.0.1")
	require.NoError(t, err)
	address := "127.0.0.1:" + strconv.Itoa(port)
	access, secret := rand.Text(), rand.Text()
	dir := t.TempDir()
	for _, name := range []string{"data", "metadata"} { // not every file system has extended attributes
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	var serverLog bytes.Buffer
	server := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "--port", address, "--region", region, "--quiet", "posix", "--sidecar", filepath.Join(dir, "metadata"), filepath.Join(dir, "data"))
	server.Dir = dir
	server.Env = []string{"ROOT_ACCESS_KEY_ID=" + access, "ROOT_SECRET_ACCESS_KEY=" + secret, "HOME=" + dir}
	server.Stdout, server.Stderr = &serverLog, &serverLog
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill() // its data is removed with the test
		_ = server.Wait()
		if t.Failed() {
			t.Logf("output of the S3 server:\n%s", serverLog.String())
		}
	})
	endpoint := "http://" + address
	client := s3.New(s3.Options{
		Region: region, BaseEndpoint: &endpoint, UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
	})
	ctx := Context(t)
	Await(t, func() (bool, string) {
		_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucket)})
		return err == nil, "create a bucket: " + errorText(err)
	})
	parameters := url.Values{"region": {region}, "endpoint": {endpoint}, "use_path_style": {"true"}}
	return S3{
		URL: "s3://" + bucket + "?" + parameters.Encode(), Dir: filepath.Join(dir, "data", bucket),
		Environment: map[string]string{"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret, "AWS_EC2_METADATA_DISABLED": "true"},
	}
}

// Named returns the URL of another bucket of the server.
func (s S3) Named(bucket string) string {
	_, parameters, _ := strings.Cut(s.URL, "?")
	return "s3://" + bucket + "?" + parameters
}

// At returns the URL of the bucket at another endpoint of the server.
func (s S3) At(endpoint string) string {
	address, parameters, _ := strings.Cut(s.URL, "?")
	values, _ := url.ParseQuery(parameters) // cannot fail: RequireS3 encoded it
	values.Set("endpoint", endpoint)
	return address + "?" + values.Encode()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
