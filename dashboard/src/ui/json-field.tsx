import type { ReactElement } from 'react'
import { Field } from './act.tsx'

/** A field for JSON, which may stay empty. */
export function JsonField({
  label,
  value,
  onChange,
}: {
  readonly label: string
  readonly value: string
  readonly onChange: (text: string) => void
}): ReactElement {
  return (
    <Field label={label} hint={isJson(value) ? 'JSON. Empty: none.' : 'This is not JSON.'}>
      <textarea
        className="field h-24 py-2 font-mono"
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    </Field>
  )
}

/** Whether a text is JSON, or empty. */
export function isJson(text: string): boolean {
  if (text.trim() === '') return true
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
