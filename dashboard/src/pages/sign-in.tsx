// The door: a token goes in, and the browser gets a cookie for it.
import { useState } from "preact/hooks";
import { ApiError } from "../api/request.ts";
import { failed } from "../api/connection.ts";
import { Mark, ThemeChoice } from "../parts/header.tsx";
import { signIn } from "../session.ts";

export function SignIn() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(token.trim());
    } catch (error) {
      setProblem(wordsFor(error));
      setBusy(false);
    }
  };

  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit} aria-labelledby="sign-in-title">
        <h1 id="sign-in-title"><Mark /> Sign in to ampcore</h1>
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
          <code>ampserver up</code> keeps yours in <code>ampcore-data/token</code>; elsewhere an admin
          makes one with <code>ampctl token create</code>.
        </p>
        <div class="row spread">
          <ThemeChoice />
          <button type="submit" class="button primary" disabled={busy}>{busy ? "Signing in …" : "Sign in"}</button>
        </div>
      </form>
    </main>
  );
}

function wordsFor(error: unknown): string {
  if (error instanceof ApiError && error.status === 401) {
    return "This token is not valid here: it may be mistyped, revoked or expired.";
  }
  return failed(error).message;
}
