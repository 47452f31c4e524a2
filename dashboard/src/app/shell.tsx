import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { type ReactElement, type ReactNode, useEffect, useState } from 'react'
import { ApiError, setToken, token } from '../api/client.ts'
import { me, overview } from '../api/queries.ts'
import { follow, useConnection } from '../api/stream.ts'
import { Button } from '../ui/parts.tsx'
import { useNow } from '../ui/clock.ts'
import { duration, shortCount } from '../ui/words.ts'
import { Fault } from './faults.tsx'
import { signsIn } from './mount.ts'
import { Keyboard, PLACES } from './keyboard.tsx'
import { setTheme, type Theme, useTheme } from './theme.ts'

/** Navigation, connection and rights around every page. */
export function Shell(): ReactElement {
  const asked = useQuery(me)
  const { error } = asked
  const refused = error instanceof ApiError && error.status === 401
  if (refused && signsIn)
    return (
      <Plain>
        <SignIn refusal={token() === null ? null : error.message} />
      </Plain>
    )
  if (asked.data === undefined)
    return (
      <Plain>
        {error ? <Fault error={error} retry={() => void asked.refetch()} /> : <p className="text-soft">Loading…</p>}
      </Plain>
    )
  return <SignedIn />
}

function Plain({ children }: { readonly children: ReactNode }): ReactElement {
  return <main className="flex min-h-dvh items-center justify-center p-6">{children}</main>
}

function SignedIn(): ReactElement {
  const queries = useQueryClient()
  const [open, setOpen] = useState(false)
  const path = useRouterState({ select: ({ location }) => location.pathname })
  useEffect(() => {
    const ending = new AbortController()
    void follow(queries, ending.signal)
    return () => ending.abort()
  }, [queries])
  useEffect(() => setOpen(false), [path])
  return (
    <div className="min-h-dvh md:grid md:grid-cols-[13.5rem_minmax(0,1fr)]">
      <a
        href="#content"
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded focus:bg-raised focus:px-3 focus:py-2"
      >
        Skip to the content
      </a>
      <aside className="border-line bg-surface max-md:border-b md:border-r">
        <div className="md:sticky md:top-0 md:flex md:h-dvh md:flex-col">
          <div className="flex h-14 items-center justify-between gap-2 px-4">
            <Link to="/" className="flex items-center gap-2.5 text-base font-semibold tracking-tight">
              <Mark />
              Sluice
            </Link>
            <div className="flex items-center gap-2 md:hidden">
              <Live />
              <Button kind="plain" aria-expanded={open} aria-controls="places" onClick={() => setOpen(!open)}>
                Menu
              </Button>
            </div>
          </div>
          <nav
            id="places"
            aria-label="Pages"
            className={`${open ? '' : 'max-md:hidden'} grow overflow-y-auto px-2.5 pb-3`}
          >
            <ul className="grid gap-0.5">
              {PLACES.map(({ to, name }) => (
                <li key={to}>
                  <Link
                    to={to}
                    activeOptions={{ exact: to === '/', includeSearch: false }}
                    className="flex h-9 items-center justify-between rounded-md px-2.5 text-soft hover:bg-sunken hover:text-ink aria-[current=page]:bg-accent-soft aria-[current=page]:font-medium aria-[current=page]:text-accent"
                  >
                    {name}
                    {to === '/limits' && <WaitingCount />}
                  </Link>
                </li>
              ))}
            </ul>
          </nav>
          <footer className={`${open ? '' : 'max-md:hidden'} grid gap-2 border-t border-line p-3 text-xs text-faint`}>
            <div className="hidden md:block">
              <Live />
            </div>
            <Viewer />
            <ThemeChoice />
          </footer>
        </div>
      </aside>
      <div className="min-w-0">
        <LostConnection />
        <main id="content" tabIndex={-1} className="mx-auto w-full max-w-[90rem] p-4 outline-none md:p-6">
          <Outlet />
        </main>
      </div>
      <Keyboard />
    </div>
  )
}

function Mark(): ReactElement {
  return (
    <svg viewBox="0 0 32 32" className="size-7" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#0f766e" />
      <path d="M7 9v14M25 9v14" stroke="#fff" strokeWidth="3" strokeLinecap="round" />
      <path
        d="M11 20c2-2 3.3-2 5 0s3.3 2 5 0M11 14.5c2-2 3.3-2 5 0s3.3 2 5 0"
        fill="none"
        stroke="#5eead4"
        strokeWidth="2.5"
        strokeLinecap="round"
      />
    </svg>
  )
}

function WaitingCount(): ReactElement | null {
  const { data } = useQuery(overview)
  const waiting = data?.waiting.total ?? 0
  if (waiting === 0) return null
  return (
    <span
      className="numbers rounded bg-warn-soft px-1.5 text-xs font-medium text-warn"
      title="jobs that wait for a budget"
    >
      {shortCount(waiting)}
      <span className="sr-only"> jobs wait</span>
    </span>
  )
}

function Live(): ReactElement {
  const { state } = useConnection()
  const [colour, words] =
    state === 'live'
      ? ['bg-(--plot-1)', 'Live']
      : state === 'lost'
        ? ['bg-(--plot-5)', 'Connection lost']
        : state === 'asking'
          ? ['bg-(--plot-2)', 'Every 2 s']
          : state === 'ended'
            ? ['bg-(--plot-6)', 'Ended']
            : ['bg-(--plot-2)', 'Connecting']
  return (
    <span role="status" data-testid="connection" className="inline-flex items-center gap-1.5 text-xs text-soft">
      <span className={`size-2 rounded-full ${colour}`} aria-hidden="true" />
      {words}
    </span>
  )
}

/** Says that what is on the screen may be old, and since when. */
function LostConnection(): ReactElement | null {
  const connection = useConnection()
  const now = useNow()
  if (connection.state === 'ended')
    return (
      <div role="alert" className="sticky top-0 z-30 border-b border-bad/40 bg-bad-soft px-4 py-2 text-bad md:px-6">
        <strong className="font-semibold">You may not see this any more.</strong> What you see is from before. Sign in
        to the application again, then reload the page.
      </div>
    )
  if (connection.state !== 'lost') return null
  return (
    <div role="alert" className="sticky top-0 z-30 border-b border-bad/40 bg-bad-soft px-4 py-2 text-bad md:px-6">
      <strong className="font-semibold">The connection to the server is lost</strong> for{' '}
      {duration(Math.max(1000, now - connection.since))}. What you see is from before. The page tries again by itself.
    </div>
  )
}

function Viewer(): ReactElement | null {
  const { data } = useQuery(me)
  const queries = useQueryClient()
  if (!data) return null
  return (
    <div className="grid gap-0.5">
      <span className="truncate" title={data.name}>
        <span className="text-soft">{data.name}</span> · {data.role === 'operator' ? 'may act' : 'reads only'}
      </span>
      <span>
        {data.version} on {data.backend === 'postgres' ? 'PostgreSQL' : 'SQLite'}
      </span>
      {token() !== null && (
        <button
          type="button"
          className="justify-self-start link"
          onClick={() => {
            setToken(null)
            queries.clear()
            location.reload()
          }}
        >
          Sign out
        </button>
      )}
    </div>
  )
}

const THEMES: readonly (readonly [Theme, string])[] = [
  ['light', 'Light'],
  ['dark', 'Dark'],
  ['system', 'Auto'],
]

function ThemeChoice(): ReactElement {
  const { theme } = useTheme()
  return (
    <div role="group" aria-label="Theme" className="flex rounded-md bg-sunken p-0.5 ring-1 ring-line ring-inset">
      {THEMES.map(([value, name]) => (
        <button
          key={value}
          type="button"
          aria-pressed={theme === value}
          onClick={() => setTheme(value)}
          className="h-6 grow rounded text-soft aria-pressed:bg-raised aria-pressed:font-medium aria-pressed:text-ink aria-pressed:shadow-sm"
        >
          {name}
        </button>
      ))}
    </div>
  )
}

function SignIn({ refusal }: { readonly refusal: string | null }): ReactElement {
  const queries = useQueryClient()
  const [value, setValue] = useState('')
  return (
    <form
      className="card grid w-full max-w-sm gap-4 p-6 shadow-float"
      onSubmit={(event) => {
        event.preventDefault()
        setToken(value.trim())
        void queries.resetQueries()
      }}
    >
      <div className="flex items-center gap-2.5">
        <Mark />
        <h1 className="text-base font-semibold">Sign in to Sluice</h1>
      </div>
      <label className="grid gap-1">
        <span className="text-soft">Token of the server</span>
        <input
          className="field"
          type="password"
          autoComplete="current-password"
          value={value}
          onChange={(event) => setValue(event.target.value)}
          autoFocus
        />
      </label>
      {refusal !== null && (
        <p role="alert" className="text-bad">
          {refusal}
        </p>
      )}
      <Button kind="primary" type="submit" disabled={value.trim() === ''}>
        Sign in
      </Button>
      <p className="text-xs text-faint">The token stays in this tab, and is forgotten when you close it.</p>
    </form>
  )
}
