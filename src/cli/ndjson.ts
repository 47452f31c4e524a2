/** Reads files of JSON lines. */
import { isUtf8 } from 'node:buffer'
import { createReadStream } from 'node:fs'
import { SluiceError } from '../base/errors.ts'
import { messageOf } from '../base/thrown.ts'

const LINE_FEED = 10

/** A line of a file, without its end. */
export interface TextLine {
  /** From 1 on. */
  readonly line: number
  readonly text: string
}

/**
 * Reads the lines of a file, or of standard input (`-`), and leaves out those without text. A line ends at a line feed;
 * node:readline also ends it at U+2028 and U+2029, which JSON may have within a string.
 * @throws {SluiceError} `cli.usage` for a file that cannot be read, or a line that is not UTF-8
 */
export async function* linesIn(file: string): AsyncGenerator<TextLine> {
  const name = file === '-' ? 'standard input' : file
  let line = 0
  try {
    for await (const bytes of splitLines(file === '-' ? process.stdin : createReadStream(file))) {
      line++
      if (!isUtf8(bytes)) throw notUtf8(name, line)
      const text = withoutMark(bytes.toString(), line).replace(/\r$/, '')
      if (text.trim() !== '') yield { line, text }
    }
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause
    throw new SluiceError('cli.usage', `${name} cannot be read: ${messageOf(cause)}`, { cause })
  }
}

async function* splitLines(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  // The chunks of a long line are joined once, at its end.
  let begun: Buffer[] = []
  for await (const chunk of input) {
    let from = 0
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, from)) {
      yield Buffer.concat([...begun, chunk.subarray(from, end)])
      begun = []
      from = end + 1
    }
    if (from < chunk.length) begun.push(chunk.subarray(from))
  }
  if (begun.length > 0) yield Buffer.concat(begun)
}

/** Some editors begin a file with a byte order mark. */
function withoutMark(text: string, line: number): string {
  return line === 1 && text.startsWith('\uFEFF') ? text.slice(1) : text
}

function notUtf8(name: string, line: number): SluiceError {
  return new SluiceError(
    'cli.usage',
    `Line ${line} of ${name} is invalid: it has bytes that are not UTF-8. Save the file as UTF-8.`,
  )
}
