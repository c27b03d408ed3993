"""Secrets in lines of logs, environments and documents: what must go, and what must stay.

The word `hunter2` stands for what nobody may read.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core import secrets

pytestmark = [
    pytest.mark.guarantee(
        "What others wrote",
        "Lines that `doctor` quotes leave out what looks like a secret,",
        "by its name or its form. Tried: 90 lines that must go and 70 that must stay. Rules can "
        "miss one: read an answer before you send it.",
    ),
]

GO = [
    # as env(1) prints them
    "PMI_KEY=hunter2", "SLURM_MPI_KEY=hunter2", "FI_CRED=hunter2", "DB_PASS='hunter2'",
    "DB_PASS=a b&c;hunter2", "FI_OPX_UUID=hunter2", "PSM2_UUID=hunter2", "MYSQL_PWD=hunter2",
    "OMPI_MCA_orte_precondition_transports=hunter2-12", "AWS_SECRET_ACCESS_KEY=x/hunter2+y",
    "DOCKER_AUTH=hunter2==", "export GITHUB_TOKEN=hunter2", 'declare -x API_TOKEN="hunter2 b"',
    "setenv WANDB_API_KEY hunter2", 'setenv("WANDB_API_KEY", "hunter2")',
    "set -gx NPM_TOKEN hunter2", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=-o ProxyCommand=hunter2 %h",
    "OMPI_MCA_plm_rsh_args=-o 'ProxyCommand=ssh hunter2 -W %h:%p'",
    # in logs
    "auth_key 0x6875hunter2", "auth_key: hunter2", "job 1: setting auth_key=0xhunter2 on cxi0",
    "slurmstepd: PMI_KEY 8a1hunter2 given", "password = hunter2 # of anna", "Passphrase: hunter2",
    "the password is hunter2", "Passphrase was: hunter2, said anna", "pwd:hunter2", "pwd = hunter2",
    "[node1] db_password:='hunter2'", "login with userPassword=hunter2, done",
    "Cookie: a=1; session=hunter2; b=2", "< set-cookie: id=hunter2; Path=/",
    "Authorization: token hunter2", "proxy-authorization: Basic hunter2",
    "X-Auth-Token: hunter2", "sent Bearer hunter2abcdef0", "redis://:hunter2@host:6379/0",
    "git clone https://anna:p@ss/hunter2@example.org/x".replace("/hunter2", "hunter2"),
    "https://01234567890123456789hunter2@example.org/x", "GET /x?a=1&access_token=hunter2&b=2",
    "PUT https://x.blob/y?sv=1&sig=hunter2%3D", "proxy http://u:hunter2@proxy:3128/",
    # in command lines
    "prog --password hunter2 -n 2", "prog --api-key=hunter2", "prog --auth-token 'hunter2 b'",
    "argv: ['prog', '--password', 'hunter2']", "sshpass -p hunter2 ssh node1",
    "docker login -u anna -p hunter2 host", "mysql -u root -phunter2 db",
    "curl -s -u anna:hunter2 https://x", "curl -H 'Authorization: Bearer hunter2' https://x",
    'curl -H "Cookie: hunter2" x', "ssh -oProxyCommand='nc hunter2 22' node1",
    # in documents
    '{"password": "hunter2"}', '{"a": {"client_secret":"x\\"hunter2"}}', "  token: hunter2",
    '"env": ["DB_PASS=a hunter2", "A=1"]', "credentials: {password: hunter2}",
    '{\\"password\\": \\"hunter2\\"}', "password: |\n  hunter2\n  hunter2\nnext: 1",
    "- private_key: >-\n    hunter2\n\n    hunter2\n", "<password>hunter2</password>",
    '<apiToken type="x">hunter2</apiToken>', "x = {'secret': 'hunter2'}",
    # by their form
    "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----",
    '"-----BEGIN PRIVATE KEY-----\\nhunter2\\n-----END PRIVATE KEY-----\\n"',
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nhunter2\n-----END PGP PRIVATE KEY BLOCK-----",
    "glpat-hunter2hunter2hunter2", "ghp_hunter2hunter2hunter2hunter2", "xoxb-hunter2-hunter2",
    "github_pat_hunter2hunter2hunter2", "eyJhunter2hunter2.eyJhunter2hunter2.hunter2",
    'export DB_PASSWORD="hunter2\\\n"', 'mysql --password="hunter2\\\n" -h x', 'API_TOKEN: "hunter2\\\n  x"',
    'SECRET="a\\"hunter2"',
    "SLURM_JWT=hunter2", "export PGPASSWORD=hunter2", "dbpasswd: hunter2", "REGISTRYTOKEN=hunter2",
    "MYAPIKEY: hunter2", "machine x.org login anna password hunter2", "login anna\n  password hunter2",
    "machine x.org\n  password hunter2\n", "openssl rsa -passin pass:hunter2 -in k",
    "MUNGE:AwQFAhunter2hunter2hunter2hunter2==:", "hvs.CAESIhunter2hunter2hunter2hunter2",
    "dckr_pat_hunter2hunter2hunter2hunter2", "sk_live_51Hunter2hunter2Hunter2hunter2",
    "glc_eyHunter2hunter2Hunter2hunter2x", "ya29.hunter2hunter2hunter2hunter2", "xapp-1-hunter2-hunter2",
    "nvapi-hunter2hunter2hunter2hunter2hunter2", "dop_v1_Hunter2hunter2hunter2hunter2",
    "key AKIAHUNTER2HUNTER2HU of anna", "hf_hunter2hunter2hunter2hunter2hunter2",
]  # fmt: skip

STAY = [
    "PMI_RANK=0", "PMI_SIZE=2", "PMI_FD=7", "PMIX_RANK=0", "key=value", "{'key': 'value'}",
    "sort_key=size", '"cache_key": "abc123"', "FI_PROVIDER=cxi;ofi_rxm", "MPIR_CVAR_KEYVALS=4",
    "libkeyutils.so.1 => /lib/libkeyutils.so.1", "tokens per second 12", "max_tokens=512",
    "token_count: 12", "KeyError: 'mpi'", "AuthType=auth/munge", "author: anna", "PWD=/srv/x",
    "the password is not set", "password is incorrect", "Password was required", "pwd: ~/x",
    "OLDPWD=/tmp", "pass: 12 fail: 0", "PASS latency 8 B", "bypass=1", "compass=north",
    "monkey = 1", "keyboard: de", "mr_key: 0x7f001234", "rkey=0x1234abcd lkey=0x12",
    "Host key verification failed.", "Permission denied (publickey,password).",
    "password authentication failed for anna", "Basic functionality test", "ping -i lo",
    "ssh -p 22 node1", "mpirun -p 4 ./app", "ssh://git@example.org/x", "git@example.org:x/y.git",
    "http://[::1]:8080/x?a=1&b=2", "https://example.org:443/@anna/x", "tokenizer=bpe",
    "FI_OPX_EXPECTED_RECEIVE_ENABLE=1", "UUID=6f3a-12", "SLURM_JOB_ID=12 SLURM_PROCID=1",
    "OMPI_MCA_btl_tcp_if_include=hsn0", "MPICH_OFI_NIC_POLICY=GPU", "cookies are disabled",
    "cxi_cookie_size=16", "the secret of speed is 1 copy", "secretary: anna", "cc -include a/b.h",
    "MPI_Init failed: mtl:ofi:provider: lnx", "-----BEGIN CERTIFICATE-----", "eyJ.no.token",
    "latency 8 1.23 us", "hwloc: cpu 0-15", "passed=12", "0x7f0012345678 in MPI_Send",
    "export LD_LIBRARY_PATH=/opt/x/lib:/opt/y/lib", "curl -u https://x", "docker ps -p 1",
    "_ZN4llvm12DenseMapBaseINS_8DenseMapIPKNS_5ValueE", "main_ZN5boost3mpi12environmentC1ERiRPPcb",
    "libfoo.ABCdef0123456789abcdefABCDEF.so.1", "pass:// x", "maxtokens=12", "bypass:on",
    "the token expires", "sha256_0123456789abcdef0123456789abcdef", "password authentication",
    "[n:85] psec: munge failed to create credential: Socket communication error",
    "slurmd: cannot verify the job credential: Invalid argument", "got no token: Connection refused.",
    "login without a password: Authentication failed", "GENERATE_KEYS_PER_RANK=4", "error: unknown key `mpii`", "public_key: ssh-ed25519 AAAA",
]  # fmt: skip


# By the syntax around a value: all of its parts go.
GO_WHOLE = [
    # words of a shell in parts
    "TOKEN='hunter2'\"hunter2\"", "export TOKEN=ab'hunter2'hunter2", "TOKEN=\"a\"hunter2'hunter2'",
    "TOKEN=$'a\\nhunter2'", "API_TOKEN=a\\ hunter2", "x --token=ab'hunter2' -n 2", "x --token 'a'hunter2",
    "MY_SECRET='a'$B'hunter2'", 'TOKEN="a b"hunter2', "env A=1 API_TOKEN='a b'\"c hunter2\" ./run",
    # a mark that stands there already hides nothing
    "password=(password left out)hunter2", "token: (token left out)hunter2", "PASSWORD=(token left out) hunter2",
    'token="(token left out)hunter2"', "password=(hunter2 left out)", "Cookie: (cookie left out); hunter2",
    "https://u:(password left out)hunter2@h/", "x --password (password left out)hunter2",
    "machine h login u password (password left out)hunter2", '{"token": "(hunter2 left out)"}',
    # YAML
    "password:\n  hunter2", "tokens_secret:\n- hunter2\n- hunter2", "api_token:\n    - hunter2\n    - 'hunter2'",
    "password: # of anna\n  hunter2", "a:\n  db_password:\n    hunter2\n    hunter2", "password: |2-\n  hunter2",
    "password: correct horse hunter2", "  api_token = a hunter2", "- secret: a hunter2 # x",
    "credential: hunter2 error", "the password: hunter2 failed", "its token: hunter2 was refused",
    "- password:\n    hunter2", "password: [hunter2, hunter2]", "api_token: ['a', \"hunter2\"]",
    "credentials: {a: hunter2, b: [hunter2]}", "- name: DB_PASSWORD\n  value: hunter2",
    '"password":\n  "hunter2"', "'api_token':\n  hunter2",
    # JSON, TOML, INI, properties
    '{"secrets": {"a": {"b": "hunter2"}}}', '"api_token": [\n  "a",\n  "hunter2"\n ]', '{"name":"DB_PASSWORD","value":"hunter2"}',
    '{"key": "API_TOKEN", "value": "hunter2"}', 'password = """\nhunter2\n"""', "api_token = '''hunter2'''",
    "api.token=hunter2", "spring.datasource.password: hunter2", "db-password => hunter2", 'x["password"] = "hunter2"',
    "password = b'hunter2'", "password=r'hunter2'", "AccountKey=hunter2;x", '<add key="DbPassword" value="hunter2"/>',
    # headers and addresses
    'Authorization: Digest username="anna", response="hunter2"', 'Cookie: a="b"; s="hunter2"',
    "curl -H \"Authorization: Digest r='hunter2'\" x", "postgres://u:a/hunter2@host/db", "amqp://u:hunter2/a@h",
    "X-Api-Key: hunter2", "X-Registry-Auth: hunter2",
    # what programs of SSH take for a file
    "ssh -i /k/hunter2 n1", "rsync -e 'ssh -i hunter2.key' a b", "-i ~/.ssh/hunter2", "scp -q -i hunter2 a b:",
    "X_ARGS=-i keys/id_hunter2",
]  # fmt: skip
# Harmless lines that are near to those.
STAY_WHOLE = [
    "sed -i /hunter/d x", "sed -i.bak s/a/b/ file", "grep -i /usr/lib x", "docker run -p 8080:80 x",
    "podman run -i /image sh", "docker login && docker run -p 8080:80 x", "perl -i -pe s/a/b/ x",
    "--token-ring 5", "network: token-ring", "token_ring=16", "token_bucket_rate: 100", "x --no-password file",
    "docker login --password-stdin registry.example.org", "use_token: yes", "password: null", "token: true",
    "password:", "token =", "secret: ''", "--password-file", "PASSWORD_POLICY=strict", "password_prompt: on",
    "http://host:8080/a/x@y", "http://host:8080/a:b@c", "https://host/a:b@c", "mailto:a@b", "git@h:a/b", "key: [a, b]",
    "name: PATH\nvalue: /usr/bin", '{"name": "HOME", "value": "/root"}', "keys:\n- a\n- b", "token_endpoint: https://h/t",
    "tokens: [1, 2]", "password: {}", "secrets: []", "the key left out", "(none left out)", "has_secret = no",
    "credential_helper: store", "token_type: bearer", "srun -i none ./a", "taskset -p 1 2", "ssh -p 2222 host",
    "password:\nnext: 1", "password:\nuser: anna",
]  # fmt: skip


# What is left as it is has a form; a text that only looks like it keeps no secret.
BAIT = [
    # why something failed: all of its words are known
    "the password: Hunter unknown", "login with password: Hunter error", "its token: Hunter not found",
    # words of a sentence
    "the password is inhunter", "the password is nothunter", "the password is set to hunter2", "password was set: hunter2",
    "password is required: hunter2", "the password is now hunter2",
    # paths, switches, options, amounts and addresses
    "pwd='hunter2'", 'pwd: "hunter2"', "x --password -hunter2", "sshpass -p -hunter2 ssh a", "x --password \\\n  hunter2",
    "PASSWORD_SERVER=hunter2", "use_token: hunter2", "USE_PASSWORD=hunter2", "token_type: hunter2hunter2",
    "SECRET_VERSION=hunter2", "no_password=hunter2", "has_secret=hunter2", "TOKEN_RING=hunter2", "token_ring_key: hunter2",
    "token_endpoint: https://h/?hunter2", "api_host_key: hunter2", "local_access_key=hunter2",
    # nothing, and something behind it
    'password = "" "hunter2"', "password: '' hunter2", "password: [] hunter2", "password: {a: b} hunter2", 'password: "a" hunter2',
    'password: "(token left out)" hunter2',
    # tokens beside other letters, at the end of a sentence, and with a name that C++ gives
    "see dop_v1_Hunter2hunter2hunter2hunter2.", "x_ghp_hunter2hunter2hunter2hunter2", "xghp_hunter2hunter2hunter2hunter2",
    "jwt_eyJhunter2hunter2.eyJhunter2hunter2.hunter2", "x-eyJhunter2hunter2.eyJhunter2hunter2.hunter2",
    "idAKIAHUNTER2HUNTER2HU", "id_AKIAHUNTER2HUNTER2HU_x", "my_glpat-hunter2hunter2hunter2", "glc_ZNHunter2hunter2Hunter2hunter2x",
    "sent bearer hunter2abcdef0",
    # headers, addresses and elements
    'x Cookie: "a"; s=hunter2', '"Cookie: a=\\"b\\"; s=hunter2"', 'x Authorization: "x" hunter2', "https://u:a'hunter2@h/",
    'https://u:a"hunter2@h/', "abcdefghijklmnopqrstuvwxyz://u:hunter2@h/", "x password=abc</hunter2", "-passin pass://hunter2",
    "<password>\nhunter2</password>", "<password><![CDATA[hunter2]]></password>", "<password>a hunter2</password>",
    "<password>a<b/>hunter2</password>",
    # what lies below a name, and strings of several lines
    "secrets:\n  db: hunter2", "password:\n  value: hunter2", "password: &a |\n  hunter2", "password: !x\n  hunter2",
    "password:\n  - a: hunter2", "secrets:\n  a:\n    b: hunter2", 'export TOKEN="a\nhunter2"', "export TOKEN='a\nhunter2'",
    f"x secrets: [{'a, ' * 1000}hunter2]", f"x secrets: {{a: it's, {'a, ' * 1000}b: hunter2}}",
]  # fmt: skip


@pytest.mark.attack
@pytest.mark.parametrize("text", BAIT)
def test_an_exception_is_no_bait(text: str) -> None:
    clean = secrets.without_secrets(f"before\n{text}\nafter=1")
    assert "hunter" not in clean.lower()
    assert clean.startswith("before\n")
    assert secrets.without_secrets(clean) == clean


@pytest.mark.attack
@pytest.mark.parametrize(
    "text", ['token = """\n{}\n"""', "export TOKEN='{}'", '"secrets": [\n{}\n]']
)
def test_a_secret_of_many_lines_goes_before_lines_are_cut(text: str) -> None:
    lines = "\n".join(["hunter2"] * 200)
    assert "hunter2" not in secrets.without_long_secrets(text.format(lines))


@pytest.mark.parametrize("text", [*GO, *GO_WHOLE])
def test_secrets_go(text: str) -> None:
    clean = secrets.without_secrets(f"before\n{text}\nafter=1")
    assert "hunter2" not in clean.lower()
    assert clean.startswith("before\n")
    assert clean.endswith("\nafter=1") or "PRIVATE" in text
    assert " left out)" in clean
    assert secrets.without_secrets(clean) == clean


@pytest.mark.parametrize("text", [*STAY, *STAY_WHOLE])
def test_what_is_no_secret_stays(text: str) -> None:
    assert secrets.without_secrets(f"before\n{text}\nafter") == f"before\n{text}\nafter"


def test_the_tables_are_long_enough() -> None:
    assert len(GO) >= 40
    assert len(STAY) >= 20


def test_a_mark_says_what_was_left_out() -> None:
    clean = secrets.without_secrets("x --token hunter2 https://u:hunter2@h/\n")
    assert clean == "x --token (token left out) https://(password left out)@h/\n"


@given(st.text(alphabet="password=token: \"'\\\n-(){}|>key left out", max_size=200))
def test_a_text_that_was_cleaned_stays_as_it_is(text: str) -> None:
    clean = secrets.without_secrets(text)
    assert secrets.without_secrets(clean) == clean


FRAGMENTS = (
    "password", "token", "DB_PASS", "api_key", "secrets", "=", ": ", ":", " ", "\n", "\n  ", "- ", "'", '"',
    "\\", '\\"', "{", "}", "[", "]", ",", "|\n", "(token left out)", "(password left out)", "(key left out",
    " left out)", "hunter2", "hunter2hunter2hunter2", "--", "-i ", "-p ", "ssh ", "https://", "u:", "@h/", "Cookie",
    "Authorization", "Bearer ", "machine h login u password ", "-----BEGIN PRIVATE KEY-----", "eyJ", ".", "&", "<", ">",
    "export ", "value", "name", '"""', "#", "login", "curl -u ", "pass:", "\ue000", "true", "MUNGE:",
)  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join))
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    clean = secrets.without_secrets(text)
    assert secrets.without_secrets(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "the password: Swordfish was refused", "the password: swordfish refused",
        "login with token=Swordfish not found", "run prog --password Swordfish denied",
        "then sshpass -p Swordfish denied", "password: Swordfish not found", "a credential:Swordfish error",
    ],
)  # fmt: skip
def test_a_word_before_why_it_was_refused_is_a_secret(text: str) -> None:
    assert "wordfish" not in secrets.without_secrets(text)
