import { SluiceError } from '../../base/errors.ts'
import { jsonFaults, pathText } from '../../base/json-text.ts'
import type { Token } from '../../http/token.ts'
import { readText } from '../read-text.ts'

/** Tokens, and where they are from. */
export interface TokenSource {
  readonly tokens: readonly Token[]
  /** Null: from nowhere, there are none. */
  readonly from: string | null
}

/**
 * Finds the tokens of a server: in the file that SLUICE_TOKENS_FILE names, otherwise in SLUICE_TOKENS, otherwise in the
 * configuration. Both variables hold JSON: a list of tokens, or `{ "tokens": […] }`.
 * @throws {SluiceError} `option.invalid`, without a token in its message
 */
export function tokensFrom(
  env: Readonly<Record<string, string | undefined>>,
  configured: readonly Token[],
): TokenSource {
  const { SLUICE_TOKENS_FILE: file = '', SLUICE_TOKENS: text = '' } = env
  if (file !== '')
    return { tokens: parsed(readSecret(file), `SLUICE_TOKENS_FILE, ${file},`), from: 'SLUICE_TOKENS_FILE' }
  if (text !== '') return { tokens: parsed(text, 'SLUICE_TOKENS'), from: 'SLUICE_TOKENS' }
  return { tokens: configured, from: configured.length > 0 ? 'the configuration' : null }
}

function readSecret(file: string): string {
  try {
    return readText(file)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new SluiceError('option.invalid', `SLUICE_TOKENS_FILE ${file} cannot be read: ${why}`, { cause })
  }
}

/** A source that is named and holds no tokens would leave the server open to everybody. */
function parsed(text: string, what: string): readonly Token[] {
  const expected = 'Expected JSON: a list of tokens, at least one.'
  const { brokenAt, repeated } = jsonFaults(text)
  if (brokenAt !== null)
    throw new SluiceError('option.invalid', `${what} is invalid: not JSON from ${brokenAt} on. ${expected}`)
  if (repeated[0] !== undefined)
    throw new SluiceError(
      'option.invalid',
      `${what} is invalid: ${pathText(repeated[0])} is there twice. Expected each name once.`,
    )
  const json: unknown = JSON.parse(text)
  const list: unknown = typeof json === 'object' && json !== null && 'tokens' in json ? json.tokens : json
  if (!Array.isArray(list) || list.length === 0)
    throw new SluiceError('option.invalid', `${what} holds no tokens. ${expected}`)
  return list as readonly Token[]
}
