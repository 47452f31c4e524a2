import { useQuery } from '@tanstack/react-query'
import { type ReactElement, useDeferredValue, useState } from 'react'
import { type Change, change as send, pathKey } from '../api/client.ts'
import type { Forecast, Limit, Override, WhatIf } from '../api/types.ts'
import { Act, Field, why } from './act.tsx'
import { count, duration } from './words.ts'

interface Target {
  readonly limit: Limit
  /** Undefined: all keys of the limit. */
  readonly name?: string | null
  readonly overrides: readonly Override[]
}

/** A change of a whole limit. */
type LimitChange = Extract<Change, { path: `/limits/{name}/${'override' | 'pause' | 'penalty' | 'resume'}` }>

const UNTIL_HINT = 'A length such as 30m or 2h, or a time such as 2026-01-31T18:00:00Z.'

/** What one can do to a limit or one of its keys: override, pause, penalty, and their ends. */
export function LimitActions({ limit, name, overrides }: Target): ReactElement {
  const subject = name === undefined || name === null ? limit.name : `${limit.name} · ${name}`
  const mine = overrides.filter((each) => each.ended === null && (each.key ?? null) === (name ?? null))
  const paused = mine.some(({ kind }) => kind === 'pause')
  const overridden = mine.some(({ kind }) => kind === 'override')
  const [change, setChange] = useState(limit.text ?? '')
  const [until, setUntil] = useState('')
  const untilTerm = until.trim() === '' ? {} : { until: until.trim() }
  const params = { name: limit.name }
  // Each of these changes has a twin for one key.
  const on = (made: LimitChange): Change =>
    name === undefined
      ? made
      : ({
          ...made,
          path: made.path.replace('{name}', '{name}/keys/{key}'),
          params: { ...params, key: pathKey(name) },
        } as Change)
  const untilField = (
    <Field label="Until" hint={`${UNTIL_HINT} Empty: until someone ends it.`}>
      <input className="field" value={until} onChange={(event) => setUntil(event.target.value)} placeholder="30m" />
    </Field>
  )
  return (
    <>
      <Act
        label="Override"
        kind="primary"
        title={`Override ${subject}`}
        what="Other numbers hold at once, in every process. What is used stays used: no budget is refilled for free."
        ready={change.trim() !== ''}
        change={(reason) =>
          on({
            method: 'PUT',
            path: '/limits/{name}/override',
            params,
            body: { change: change.trim(), ...untilTerm, ...why(reason) },
          })
        }
        fields={
          <>
            <Preview limit={limit} name={name} change={change} setChange={setChange} />
            {untilField}
          </>
        }
      />
      {overridden && (
        <Act
          label="End override"
          title={`End the override of ${subject}`}
          what="The numbers of its definition hold again, at once."
          change={(reason) => on({ method: 'DELETE', path: '/limits/{name}/override', params, query: why(reason) })}
        />
      )}
      {paused ? (
        <Act
          label="Resume"
          title={`Resume ${subject}`}
          what="Its jobs start again as the budget allows."
          change={(reason) => on({ method: 'PUT', path: '/limits/{name}/resume', params, body: why(reason) })}
        />
      ) : (
        <Act
          label="Pause"
          title={`Pause ${subject}`}
          what="Nothing that needs this budget starts any more. What runs goes on, and what waits keeps its place."
          change={(reason) =>
            on({ method: 'PUT', path: '/limits/{name}/pause', params, body: { ...untilTerm, ...why(reason) } })
          }
          fields={untilField}
        />
      )}
      {(name !== undefined || limit.bucket !== null) && (
        <Act
          label="Penalty"
          kind="danger"
          title={`Close ${subject} for a while`}
          what="The budget counts as used up until then, as after a 429 of the other side. It cannot be taken back."
          ready={until.trim() !== ''}
          change={(reason) =>
            on({ method: 'PUT', path: '/limits/{name}/penalty', params, body: { until: until.trim(), ...why(reason) } })
          }
          fields={
            <Field label="Until" hint={UNTIL_HINT}>
              <input
                className="field"
                value={until}
                onChange={(event) => setUntil(event.target.value)}
                placeholder="5m"
              />
            </Field>
          }
        />
      )}
    </>
  )
}

const LEADING = /^\s*(\d+(?:\.\d+)?)/

/** The new numbers, with what they would do to those that wait. */
function Preview({
  limit,
  name,
  change,
  setChange,
}: {
  readonly limit: Limit
  readonly name: string | null | undefined
  readonly change: string
  readonly setChange: (change: string) => void
}): ReactElement {
  const asked = useDeferredValue(change.trim())
  const forecast = useQuery({
    queryKey: ['what-if', limit.name, name, asked],
    queryFn: ({ signal }) =>
      send<WhatIf>(
        {
          method: 'POST',
          path: '/limits/{name}/what-if',
          params: { name: limit.name },
          body: { ...(asked !== '' && { policy: asked }), ...(name !== undefined && name !== null && { key: name }) },
        },
        signal,
      ),
    placeholderData: (before) => before,
    retry: false,
    staleTime: 5000,
  })
  const base = Number(LEADING.exec(limit.text ?? '')?.[1] ?? Number.NaN)
  const now = Number(LEADING.exec(change)?.[1] ?? Number.NaN)
  return (
    <div className="grid gap-3">
      <Field
        label="New numbers"
        hint={
          <>
            Now: {limit.rule}. Such as <code>10/s</code>, <code>100/m burst 20</code> or <code>4 at once</code>; what it
            does not name stays.
          </>
        }
      >
        <input className="field font-mono" value={change} onChange={(event) => setChange(event.target.value)} />
      </Field>
      {Number.isFinite(base) && base > 0 && (
        <label className="grid gap-1">
          <span className="flex justify-between text-xs text-soft">
            <span>¼ ×</span>
            <span>{Number.isFinite(now) ? `${count(Math.round((now / base) * 100))} % of what is defined` : ''}</span>
            <span>4 ×</span>
          </span>
          <input
            type="range"
            aria-label="New numbers, as a share of what is defined"
            className="w-full accent-(--accent)"
            min={-2}
            max={2}
            step={0.05}
            value={Number.isFinite(now) && now > 0 ? Math.log2(now / base) : 0}
            onChange={(event) => {
              const units = Math.max(1, Math.round(base * 2 ** Number(event.target.value)))
              setChange((limit.text ?? '').replace(LEADING, String(units)))
            }}
          />
        </label>
      )}
      {forecast.error ? (
        <p className="text-xs text-warn [overflow-wrap:anywhere]">No forecast: {forecast.error.message}</p>
      ) : (
        forecast.data && <Forecasts {...forecast.data} />
      )}
    </div>
  )
}

function Forecasts({ now, then }: WhatIf): ReactElement {
  const rows: (readonly [string, (each: Forecast) => string])[] = [
    ['Backlog drained in', (each) => (each.drainMs === null ? 'never' : duration(each.drainMs))],
    ['Wait, half of them under', (each) => (each.p50Ms === null ? '–' : duration(each.p50Ms))],
    ['Wait, 99 % under', (each) => (each.p99Ms === null ? '–' : duration(each.p99Ms))],
  ]
  return (
    <div className="rounded-md border border-line" data-testid="forecast">
      <table className="w-full text-left">
        <caption className="sr-only">What the change does to the jobs that wait</caption>
        <thead className="text-xs text-faint">
          <tr>
            <th scope="col" className="px-3 py-1.5 font-medium">
              {count(now.jobs)} jobs wait{now.exact ? '' : ', about'}
            </th>
            <th scope="col" className="px-3 py-1.5 text-right font-medium">
              as it is
            </th>
            <th scope="col" className="px-3 py-1.5 text-right font-medium">
              then
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([words, valueOf]) => (
            <tr key={words} className="border-t border-line">
              <th scope="row" className="px-3 py-1.5 font-normal text-soft">
                {words}
              </th>
              <td className="numbers px-3 py-1.5 text-right">{valueOf(now)}</td>
              <td className="numbers px-3 py-1.5 text-right font-semibold text-accent">{then ? valueOf(then) : '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
