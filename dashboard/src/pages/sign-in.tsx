// The sign-in page: exchanges a token for a session cookie, or leads to the provider.
import { useEffect, useState } from "preact/hooks";
import { ApiError, getJson } from "../api/request.ts";
import type { SignInOptions } from "../api/types.ts";
import { toApiError } from "../api/connection.ts";
import { Logo, ThemeChoice } from "../components/header.tsx";
import { providerAddress, signIn } from "../session.ts";

export function SignIn() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [isSigningIn, setBusy] = useState(false);

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(token.trim());
    } catch (error) {
      setProblem(errorText(error));
      setBusy(false);
    }
  };

  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit} aria-labelledby="sign-in-title">
        <h1 id="sign-in-title"><Logo /> Sign in to ampcore</h1>
        <label class="field">
          <span>Token</span>
          <input
            name="token"
            type="password"
            autocomplete="current-password"
            required
            autofocus
            maxLength={200}
            value={token}
            aria-describedby="token-help"
            aria-invalid={problem !== null}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {problem && <p class="problem" role="alert">{problem}</p>}
        <p id="token-help" class="muted">
          <code>ampserver up</code> writes your token to <code>ampcore-data/token</code>. On a shared server, an admin
          creates one with <code>ampctl token create</code>.
        </p>
        <ProviderLink />
        <div class="row spread">
          <ThemeChoice />
          <button type="submit" class="button primary" disabled={isSigningIn}>{isSigningIn ? "Signing in…" : "Sign in"}</button>
        </div>
      </form>
    </main>
  );
}

/** A link to the provider, if the server has one. */
function ProviderLink() {
  const [provider, setProvider] = useState<SignInOptions["provider"]>(null);
  useEffect(() => {
    getJson<SignInOptions>("/sign-in").then((options) => setProvider(options.provider), toApiError);
  }, []);
  if (!provider) return null;
  return <a class="button primary" href={providerAddress(provider.url)}>Sign in with {provider.name}</a>;
}

function errorText(error: unknown): string {
  if (error instanceof ApiError && error.status === 401) {
    return "This token is not valid on this server: it may be mistyped, revoked or expired.";
  }
  return toApiError(error).message;
}
