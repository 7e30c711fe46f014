"""Plain commands, and what one approval covers."""

from __future__ import annotations

import subprocess

from kin_nb.core.safety.shell.command_prefix import command_prefix, plain_words


def test_plain_words_are_those_that_bash_sees(subtests):
    for command, words in [
        ("ls", ["ls"]),
        ("  ls -la\tsrc ", ["ls", "-la", "src"]),
        ("git commit -m 'a; b && $(c)'", ["git", "commit", "-m", "a; b && $(c)"]),
        ('grep "two words" x.py', ["grep", "two words", "x.py"]),
        ("echo a'b'\"c\"d ''", ["echo", "abcd", ""]),
        ("pytest tests/test_x.py::test_ä", ["pytest", "tests/test_x.py::test_ä"]),
    ]:
        with subtests.test(command=command, words=words):
            assert plain_words(command) == words
            seen = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
            assert seen.decode().split("\0")[:-1] == words


WITHOUT_WORDS = [
    *(
        "",
        "   ",
        "ls; rm x",
        "ls && rm x",
        "ls | sh",
        "ls & rm x",
        "ls > f",
        "ls 2>&1",
        "cat < f",
        "(ls)",
        "{ ls",
        "ls\nrm x",
    ),
    *(
        "echo $HOME",
        "echo `id`",
        "echo $(id)",
        'echo "$(id)"',
        'echo "`id`"',
        'echo "\\$x"',
        "ls *",
        "ls ?",
        "ls [a]",
    ),
    *(
        "ls {a,b}",
        "ls ~",
        "! ls",
        "ls #x",
        "FOO=1 ls",
        "FOO+=1 ls",
        "'A=1' ls",
        "echo 'open",
        'echo "open',
        "a\\ b",
    ),
    *("if ls", "time ls", "coproc ls", "'' x", "ls\r", "ls\0", "ls\u00a0x", "ls\u2028rm", "ls \u202e", "ls \ud800"),
]


def test_everything_else_has_no_words(subtests):
    for command in WITHOUT_WORDS:
        with subtests.test(command=command):
            assert plain_words(command) is None
            assert command_prefix(command) is None


PREFIXES = [
    ("pytest -q tests", "pytest"),
    ("mkdir a", "mkdir"),
    ("git commit -m 'a; b'", "git commit"),
    ("npm run build -- --watch", "npm run build"),
    ("pip list --outdated", "pip list"),
    ("ruff check src", "ruff"),
    ("make test", "make test"),
    ("cargo build --release", "cargo build"),
    ("docker ps -a", "docker ps"),
    ("git fetch origin", "git fetch"),
    ("git pull --rebase origin main", "git pull"),
    ("kubectl logs web", "kubectl logs"),
    ("python -m unittest -v", "python -m unittest"),
    ("python -m pytest -q", "python -m pytest"),
    ("python3.12 -m pip list", "python3.12 -m pip list"),
    ("uv run pytest -x", "uv run pytest"),
    ("uv run python -m mypy x", "uv run python -m mypy"),
]


def test_the_prefix_is_the_program_and_its_subcommand(subtests):
    for command, prefix in PREFIXES:
        with subtests.test(command=command, prefix=prefix):
            assert command_prefix(command) == prefix


def test_what_only_looks_has_a_prefix_when_it_is_proven(subtests):
    for command, prefix in [
        ("ls -la", "ls"),
        ("git diff --stat", "git diff"),
        ("grep -i -H -s x y", "grep"),
        ("/bin/ls", None),
    ]:
        with subtests.test(command=command, prefix=prefix):
            assert command_prefix(command, read_only=True) == prefix
            assert command_prefix(command) is None


FAR_REACHING_COMMANDS = [
    # code or programs in the arguments
    *(
        "bash -c 'rm x'",
        "sh x.sh",
        "python -c 'x'",
        "python x.py",
        "python",
        "python3 -m timeit x",
        "python -m pdb x.py",
    ),
    *(
        "python -X dev -m pytest",
        "python3.12-dbg -c x",
        "node -e x",
        "perl x",
        "ruby3.2 x",
        "sudo ls",
        "env ls",
        "xargs rm",
    ),
    *(
        "nohup ls",
        "timeout 5 ls",
        "find . -name x",
        "awk x",
        "sed -n p x",
        "eval ls",
        "source x",
        ". x",
        "ssh host ls",
    ),
    *(
        "uv run x.py",
        "uv run python x.py",
        "uv run --with evil pytest",
        "npx evil",
        "npm exec evil",
        "docker run x",
    ),
    *("kubectl exec p ls", "git bisect run x", "git -c core.pager=x log", "git config alias.x y", "git rebase -i"),
    # write where what they read says
    *(
        "git apply x.diff",
        "git apply --unsafe-paths x.diff",
        "git am x.mbox",
        "patch -p1",
        "patch -i x.diff",
        "cpio -i",
    ),
    *(
        "rg --pre x y",
        "git log --output=x",
        "git diff --ext-diff",
        "git fetch --upload-pa=x",
        "go test -exec x",
        "tar cf x y",
    ),
    *("printf x", "test -v x", "let x=1", "declare x", "read x", "mapfile x", "jobs -x ls", "compgen -C x"),
    *("valgrind ls", "perf stat ls", "mpirun x", "hyperfine x", "bundle exec x", "nix run x", "yarn node -e x"),
    *("echo 'a[$(touch x)]'", "ls 'a[`x`]'"),
    *("pylint --init-hook=x y", "pylint --load-plugins=x y", "pip check --python ./x", "pytest --rcfile x"),
    # another host
    *("docker -H tcp://evil ps", "docker ps -H tcp://evil", "docker ps --host=evil", "docker logs -Htcp://evil x"),
    *("kubectl logs -s evil web", "kubectl logs --server=evil web", "kubectl logs -shttps://evil web"),
    *("pip list -i evil -o", "pip list --index-url=evil -o", "pip list --extra-index-url evil -o"),
    *("python -m pip list -i evil", "uv run pip list -ievil", "npm outdated --registry=evil"),
    *("git fetch ext::sh", "git fetch https://evil/x", "git pull evil:x main", "git pull --rebase ssh://evil/x"),
    # nothing to name, or more than one thing
    *("git", "make", "make test deploy", "make SHELL=x test", "make test SHELL=x", "npm run", "git --version"),
    # a program that is a file, or not a name
    *("./run.sh", "/bin/ls", "bin/x", "run.py", "'a b' c"),
    # destroy, or send
    *("rm x", "mv a b", "chmod +x a", "curl example.org", "git push", "git reset --hard"),
    # outside the workspace, or sensitive
    *("mkdir /etc/x", "mkdir ../x", "cat a/../../b", "sort --key=/x y", "cat -T/etc/x", "pytest --x=/y"),
    *("cat .env", "cat .git/config", "cat src/.ssh/id_rsa", "sort --files=.env", "git fetch git@evil:x"),
]


def test_what_could_reach_further_is_approved_verbatim_only(subtests):
    for command in FAR_REACHING_COMMANDS:
        with subtests.test(command=command):
            assert plain_words(command) is not None
            assert command_prefix(command) is None


UNKNOWN_PROGRAMS = [
    # programs that nothing is known about, and what they run, reach or send
    *("rlwrap cat", "torsocks cat x", "ansible all -m ping", "ansible-playbook site.yml", "dig secret.example.org"),
    *(
        "gh gist create x",
        "gh pr view 1",
        "twine upload x",
        "nslookup x",
        "no-such-program x",
        "jq . x",
        "mvn test",
    ),
    *("uv run twine upload x", "python -m twine upload x", "poetry run rlwrap x", "python -m http.server"),
    # installers
    *(
        "pip install x",
        "pip3 install -r requirements.txt",
        "python -m pip install x",
        "uv add x",
        "uv pip install x",
    ),
    *("uv sync", "npm install x", "npm ci", "npm i x", "yarn add x", "pnpm add x", "poetry add x", "pdm add x"),
    *(
        "apt install x",
        "apt-get install x",
        "cargo install x",
        "cargo add x",
        "go get x",
        "go install x",
        "gem install x",
    ),
    *(
        "brew install x",
        "conda install x",
        "conda create -n x",
        "mamba install x",
        "dnf install x",
        "pipx install x",
    ),
    *("mypy --install-types --non-interactive x",),
    # subcommands that are not listed
    *(
        "git rm x",
        "git branch -D x",
        "git tag x",
        "git stash clear",
        "kubectl get secrets",
        "cargo run",
        "docker build .",
    ),
]


def test_unknown_programs_and_installers_are_approved_verbatim_only(subtests):
    for command in UNKNOWN_PROGRAMS:
        with subtests.test(command=command):
            assert plain_words(command) is not None
            assert command_prefix(command) is None


def test_a_prefix_does_not_cover_a_longer_name():
    assert command_prefix("npm test") != command_prefix("npm testify")
    assert command_prefix("pytest x") != command_prefix("pytest-watch x")


COMMON_OPTIONS = [
    *("pytest -x -k name", "pytest -xvs -n4 --tb=short tests/a.py::test_b", "pytest -m 'not slow' -rA --maxfail 2"),
    *(
        "npm test",
        "npm run build",
        "ruff check --fix .",
        "mypy src",
        "mypy --strict -p kin",
        "pip list --format=json",
    ),
    *("cargo test -- --nocapture", "cargo clippy --all-targets -- -D warnings", "go test -run X -v -count=1"),
    *(
        "git status -sb",
        "git status --porcelain",
        "git log --oneline -5",
        "git log -n 3 --stat",
        "git log -20",
        "git add -A",
        "npm ls --all",
        "black --check .",
        "ruff format --check",
        "pytest --co",
    ),
    *("git commit -am x", "docker ps -a", "python -m unittest discover -s tests", "uv run pytest -q", "mkdir -p a"),
]


def test_common_options_are_covered(subtests):
    for command in COMMON_OPTIONS:
        with subtests.test(command=command):
            assert command_prefix(command) is not None


UNCOMMON_OPTIONS = [
    # runs or loads something
    *(
        "mypy --python-executable ./x a.py",
        "mypy --python-executable=x a.py",
        "mypy @options",
        "pyright --pythonpath ./x",
    ),
    *("pytest -p x", "pytest -c x.ini", "pytest -qp x", "pytest -o python_files=x", "uv run pytest -p x"),
    *("python -m pytest -p x", "python -m mypy --python-executable x a.py"),
    *("pre-commit run -c x.yaml", "pre-commit run -cx.yaml", "eslint -f ./x.js a", "eslint --format=./x.js a"),
    *("go build -ldflags -extld=x", "go test -exec x", "go test -execx", "git merge -s x", "mocha -r ./x.js"),
    *(
        "jest --globalSetup=./x.js",
        "vitest -r x",
        "npm run build --node-options=--require=./x.js",
        "dotnet build -l:x.dll",
    ),
    *("podman ps --conmon=x", "podman ps --runtime=x", "hatch fmt --python x", "cargo build --config x"),
    # sends, or names another host
    *(
        "pytest --pastebin=all",
        "kubectl logs --context prod web",
        "kubectl logs --kubeconfig=x web",
        "docker ps --context x",
    ),
    *(
        "pip list -o --proxy example.org:8080",
        "npm outdated --https-proxy=example.org:80",
        "uv tree --default-index x",
    ),
    # writes, or deletes
    *("pytest --basetemp=data", "pytest --junit-xml=a.py", "pytest --cov-report=xml:a.py", "pip list --log app.py"),
    *(
        "coverage xml -o a.py",
        "coverage html -d src",
        "go build -o a.py",
        "cargo build --target-dir x",
        "touch -r x y",
    ),
    *("clang-format --style=file:x a", "npm run build --prefix sub", "pnpm run build --dir x", "git status -vv"),
    # what a script of the project makes of it is not known
    *("npm run db -- --all", "npm test -- --force", "pip list -o -f x"),
    # shows files
    *("go list -m evil.com/PAYLOAD@latest", "go list -m all", "go list evil.com/x@latest", "go doc evil.com/x@v1"),
    *("git commit -v --dry-run", "git commit -a --verbose --dry-run", "git commit --amend -qv --dry-run -a"),
    *("pre-commit run --show-diff-on-failure",),
    *("git log -p", "git log --stat -p", "git log -L 1,2:x", "shellcheck -x a", "git add -f x"),
]


def test_any_other_option_is_approved_verbatim_only(subtests):
    for command in UNCOMMON_OPTIONS:
        with subtests.test(command=command):
            assert plain_words(command) is not None
            assert command_prefix(command) is None
