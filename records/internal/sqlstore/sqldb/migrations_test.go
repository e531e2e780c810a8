package sqldb_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// released holds the digests of the migrations, in order. A migration in this
// table is part of databases in use: it never changes, and the next change of the
// schema is a new file and a new line.
var released = map[string][]string{
	"sqlite": {
		"88278e150244a4220cf6b28402ec1956d423bc544e8f5c282170f0ba0a280efe",
		"c45efe7aad7bc10e29d4b37575bc53d8a4e86dcd673fbee4ce2f257f23ba8a28", // 00002
		"32f5b5b8cf1241c80138f40c2b6fd5c52671c022579d6f881ce124e3a65893a6", // 00003
		"b7f7f94476127ce6db766fcac267d61cfa34f1444898745435c066f1fdb798f5", // 00004
		"8518c481cd07ee278187cdc7d05d69bf2c8a6be11d22c3602e9107983a5aa516", // 00005
		"d7be115dd6b20d20067b0fe2b1fde96715665a41e29ed411cc69e501c7a4b103", // 00006
		"ace7c631bc3d06c4a37b00bb7bfb4c5104e06e5b98f4990a12becd9978fa1f56", // 00007
		"eb0eb0396b64fe5e43d00d288f427d63fac45db57844af20569933e294d7cd60", // 00008
		"662e32f3dc144fb5acd8f51b5950e99b4d6aebb9c11ef281f1c72433ea0dd0b8", // 00009
		"0db4bc73574195c6ca1ad7a9588433c7e960832b499795ff938930408122060c", // 00010
		"ed0691759402ca9e1eded32510c69dec5b5e13ba3f596a28c2ce9c22651fef4d", // 00011
		"1fb51ade5a23fd3c2731b15e59de24ab364fb4cafde9fa8d930d2ce3156127a8", // 00012
		"7bb734faa27ebb0d72f81c23a1149ea939e38aba2420e7cf22a2edb1ac7eec47", // 00013
		"85f9aec0d5ae032347dbe4b59ac3d8359fd81100c7aeeec4383dd8129a415c89", // 00014
		"9850cdad5efd900d08287f8642e676cac7e7dc098fcf0fde1e6cdd77c2454e0a", // 00015
		"c73cd9b5ff6ae772b992cbd41b45e04427752a88fe02264d5d645e42fd0d77a9", // 00016
		"bb8629fbf2b8a9e909bbc3178818646833e1989f518a04aac3657b6e2ffa6e94", // 00017
		"1498d20ee8064965c0a349d610159cc66f4bd36452d0a25a3094684ed234e5a5", // 00018
		"67342a1249c9197e87bfd063e38131e3db78fa51ababb4d4b80fede45c6dc635", // 00019
		"6bf5c06ecb354103e8932a62ba82be769b28aca4805bf349abd76c97f142bc22", // 00020
		"903387f5a62ed54fd344d19428376464a94ba7d488c98dc82cd693581e16d0df", // 00021
	},
	"postgres": {
		"1df64f63b943f0fd159846b2db81ceca8c3f280be2e47de1b65b7e974beba8e2",
		"2b33efe0b029d72f2a4a5eab34cec0bf97a3474484a97d8db71f4cc6a75ae291", // 00002
		"32f5b5b8cf1241c80138f40c2b6fd5c52671c022579d6f881ce124e3a65893a6", // 00003
		"b7f7f94476127ce6db766fcac267d61cfa34f1444898745435c066f1fdb798f5", // 00004
		"95a1e1107870524087ca9baeefa8aa5b9ebf16c3e6aa129e912d638d0b80430b", // 00005
		"d7be115dd6b20d20067b0fe2b1fde96715665a41e29ed411cc69e501c7a4b103", // 00006
		"ace7c631bc3d06c4a37b00bb7bfb4c5104e06e5b98f4990a12becd9978fa1f56", // 00007
		"0979df256e9b32cf1450c8fbcaa5add573cf98f2fc1fb680972cbf309ba495d2", // 00008
		"d1816a0173ee7a5700767001416ab19d7d7706fe5113baf17d5c64207cf5de27", // 00009
		"0db4bc73574195c6ca1ad7a9588433c7e960832b499795ff938930408122060c", // 00010
		"ed0691759402ca9e1eded32510c69dec5b5e13ba3f596a28c2ce9c22651fef4d", // 00011
		"ec3203b13868b2cfacdaae972595f1eabbe23741d7faa23064768c49a1410b3a", // 00012
		"0b6a89dd21d41c4893e83cc88fa2d0a49dbdceb307b53d3061f6dd65a3614c6e", // 00013
		"39200aba3cef55dc4a0a680ae830ab25fcf25405df09752ccf0ff4fca2118c92", // 00014
		"4a2e3e019ddfb1863201b2660057e87778ddc7c59aab24fccc6e0ec8b6738729", // 00015
		"c73cd9b5ff6ae772b992cbd41b45e04427752a88fe02264d5d645e42fd0d77a9", // 00016
		"e3e6493cc05efd4aa05695a3a97fd75292ca9fd950390642c5fe7ad173dbc4c1", // 00017
		"1498d20ee8064965c0a349d610159cc66f4bd36452d0a25a3094684ed234e5a5", // 00018
		"a51a1398b1fadcb4a03c503209e4dffdb460be440781b5d5e0036d7f55a491ad", // 00019
		"6bf5c06ecb354103e8932a62ba82be769b28aca4805bf349abd76c97f142bc22", // 00020
		"b04013a127ade5696c1d430c03f12e8c0d94cc684c1b932d42b3502cdcc2c36f", // 00021
	},
}

func TestMigrations_unchanged(t *testing.T) {
	t.Parallel()
	for store, want := range released {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", store, "migrations", "*.sql"))
		require.NoError(t, err)
		var got []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			sum := sha256.Sum256(text)
			got = append(got, hex.EncodeToString(sum[:]))
		}
		require.Equal(t, want, got, "a migration of %s changed, or has no line in released", store)
	}
}
