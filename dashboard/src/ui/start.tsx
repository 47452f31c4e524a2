import { type ReactElement, useState } from 'react'
import { Act, Field, why } from './act.tsx'
import { isJson, JsonField } from './json-field.tsx'

/** A text field of a dialog. */
function Text({
  label,
  hint,
  value,
  onChange,
}: {
  readonly label: string
  readonly hint?: string
  readonly value: string
  readonly onChange: (text: string) => void
}): ReactElement {
  return (
    <Field label={label} {...(hint !== undefined && { hint })}>
      <input className="field" value={value} onChange={(event) => onChange(event.target.value)} />
    </Field>
  )
}

/** Stores a job. */
export function EnqueueJob(): ReactElement {
  const [task, setTask] = useState('')
  const [input, setInput] = useState('')
  const [queue, setQueue] = useState('')
  const [limits, setLimits] = useState('')
  return (
    <Act
      label="Enqueue"
      title="Enqueue a job"
      what="It waits for its limits as any job does."
      ready={task.trim() !== '' && isJson(input)}
      change={(reason) => ({
        method: 'POST',
        path: '/jobs',
        body: {
          task: task.trim(),
          ...(input.trim() !== '' && { input: JSON.parse(input) as unknown }),
          ...(queue.trim() !== '' && { queue: queue.trim() }),
          ...(limits.trim() !== '' && { limits: limitsIn(limits) }),
          ...why(reason),
        },
      })}
      fields={
        <>
          <Text label="Task" value={task} onChange={setTask} />
          <JsonField label="Input" value={input} onChange={setInput} />
          <Text label="Queue" hint="Empty: default, or that of its code." value={queue} onChange={setQueue} />
          <Text
            label="Limits"
            hint="Beside those of its code: crm=acme, mail. Write none where its code is elsewhere and it has none."
            value={limits}
            onChange={setLimits}
          />
        </>
      }
    />
  )
}

/** Starts a flow. */
export function StartFlow(): ReactElement {
  const [workflow, setWorkflow] = useState('')
  const [input, setInput] = useState('')
  const [key, setKey] = useState('')
  return (
    <Act
      label="Start"
      title="Start a flow"
      what="The engine behind this page has to list its workflow."
      ready={workflow.trim() !== '' && isJson(input)}
      change={(reason) => ({
        method: 'POST',
        path: '/flows',
        body: {
          workflow: workflow.trim(),
          input: input.trim() === '' ? null : (JSON.parse(input) as unknown),
          ...(key !== '' && { key }),
          ...why(reason),
        },
      })}
      fields={
        <>
          <Text label="Workflow" value={workflow} onChange={setWorkflow} />
          <JsonField label="Input" value={input} onChange={setInput} />
          <Text label="Key" hint="With the key of a running flow nothing is started." value={key} onChange={setKey} />
        </>
      }
    />
  )
}

/** Limits with their keys: `crm=acme, mail`. */
function limitsIn(text: string): { limit: string; key?: string }[] {
  if (text.trim() === 'none') return []
  return text.split(',').map((each) => {
    const [limit = '', ...key] = each.trim().split('=')
    return key.length === 0 ? { limit } : { limit, key: key.join('=') }
  })
}
