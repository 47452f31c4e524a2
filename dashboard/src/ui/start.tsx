import { Link } from '@tanstack/react-router'
import type { ReactElement, ReactNode } from 'react'
import { useState } from 'react'
import type { Change } from '../api/client.ts'
import { Act, Field, why } from './act.tsx'
import { isJson, JsonField } from './json-field.tsx'

/** A button whose dialog asks for a name, an input as JSON, and other texts. */
function Start<T>({
  name,
  others,
  change,
  ...rest
}: {
  readonly label: string
  readonly title: string
  readonly what: string
  /** The label of the name. */
  readonly name: string
  /** The other texts: their labels, with what is right to write. */
  readonly others: Readonly<Record<string, string>>
  /** @param input undefined: left empty */
  readonly change: (textOf: (label: string) => string, input: unknown, reason: { readonly reason?: string }) => Change
  readonly told?: (answer: T) => ReactNode
}): ReactElement {
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({})
  const textOf = (label: string): string => (texts[label] ?? '').trim()
  const write = (label: string) => (text: string) => setTexts((before) => ({ ...before, [label]: text }))
  const field = (label: string, hint?: string): ReactElement => (
    <Field key={label} label={label} {...(hint !== undefined && { hint })}>
      <input className="field" value={texts[label] ?? ''} onChange={(event) => write(label)(event.target.value)} />
    </Field>
  )
  const input = textOf('Input')
  return (
    <Act<T>
      {...rest}
      ready={textOf(name) !== '' && isJson(input)}
      change={(reason) => change(textOf, input === '' ? undefined : (JSON.parse(input) as unknown), why(reason))}
      fields={
        <>
          {field(name)}
          <JsonField label="Input" value={texts['Input'] ?? ''} onChange={write('Input')} />
          {Object.entries(others).map(([label, hint]) => field(label, hint))}
        </>
      }
    />
  )
}

/** Stores a job. */
export function EnqueueJob(): ReactElement {
  return (
    <Start
      label="Enqueue"
      title="Enqueue a job"
      what="It waits for its limits as any job does."
      name="Task"
      others={{
        Queue: 'Empty: default, or that of its code.',
        Limits: 'Beside those of its code: crm=acme, mail. Write none where its code is elsewhere and it has none.',
      }}
      change={(textOf, input, reason) => {
        const [queue, limits] = [textOf('Queue'), textOf('Limits')]
        const more = { ...(queue !== '' && { queue }), ...(limits !== '' && { limits: limitsIn(limits) }) }
        return { method: 'POST', path: '/jobs', body: { task: textOf('Task'), input, ...more, ...reason } }
      }}
    />
  )
}

/** Starts a flow. */
export function StartFlow(): ReactElement {
  return (
    <Start
      label="Start"
      title="Start a flow"
      what="The engine behind this page has to list its workflow."
      name="Workflow"
      others={{ Key: 'With the key of a running flow nothing is started.' }}
      change={(textOf, input = null, reason) => {
        const [workflow, key] = [textOf('Workflow'), textOf('Key')]
        return { method: 'POST', path: '/flows', body: { workflow, input, ...(key !== '' && { key }), ...reason } }
      }}
      told={({ id, duplicate }: { readonly id: string; readonly duplicate: boolean }) =>
        duplicate ? (
          <>
            Nothing was started: the flow{' '}
            <Link to="/flows/$id" params={{ id }} className="link">
              {id}
            </Link>{' '}
            runs with this key.
          </>
        ) : null
      }
    />
  )
}

/** Limits with their keys: `crm=acme, mail`. */
function limitsIn(text: string): { limit: string; key?: string }[] {
  if (text === 'none') return []
  return text.split(',').map((each) => {
    const [limit = '', ...key] = each.trim().split('=')
    return key.length === 0 ? { limit } : { limit, key: key.join('=') }
  })
}
