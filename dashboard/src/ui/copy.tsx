import { type ReactElement, useState } from 'react'
import { Modal } from './modal.tsx'
import { Button } from './parts.tsx'

const SAID_MS = 2000

/** Copies a text, and says so. Over plain HTTP browsers refuse the clipboard: there the text shows, to be copied by hand. */
export function CopyButton({ label, text }: { readonly label: string; readonly text: string }): ReactElement {
  const [copied, setCopied] = useState(false)
  const [shown, setShown] = useState(false)
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text)
      setCopied(true)
      setTimeout(() => setCopied(false), SAID_MS)
    } catch {
      setShown(true)
    }
  }
  return (
    <>
      <Button onClick={() => void copy()}>
        <span aria-live="polite">{copied ? 'Copied' : label}</span>
      </Button>
      <Modal open={shown} onClose={() => setShown(false)} title={label} wide>
        <pre tabIndex={0} className="overflow-auto rounded-md bg-sunken p-3 font-mono text-xs select-all">
          {text}
        </pre>
      </Modal>
    </>
  )
}
