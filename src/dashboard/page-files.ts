import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { SluiceError } from '../base/errors.ts'

/** One file of the page. */
interface PageFile {
  readonly type: string
  readonly content: Buffer
  /** Compressed at the first request that takes it. */
  gzipped: Promise<Buffer> | null
  readonly etag: string
}

/** Where the build puts the page; the same two steps from src/dashboard and from dist/dashboard. */
const FOLDER = fileURLToPath(new URL('../../dist/dashboard/page/', import.meta.url))
const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}
const compress = promisify(gzip)

/**
 * The page may load and run its own files only: no inline script, no other host, no frame around it. Its scripts may set
 * the styles of charts and graphs.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const SAFE: Readonly<Record<string, string>> = {
  'Content-Security-Policy': POLICY,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
}

/** The files of the page, below one path of a server. */
export interface Page {
  /** Whether a path is the page's. */
  serves(path: string): boolean
  /** Answers a request at a path of the page. */
  fetch(request: Request): Promise<Response>
}

/** The facts that a page needs about its server. */
export interface PageOptions {
  /** The path of the page, without a slash at its end; empty: the root. Checked by the caller. */
  readonly basePath: string
  /** The path of the monitor API. */
  readonly api: string
  /** Who tells visitors apart: the server, by a token that the page asks for, or the application, which knows them already. */
  readonly signIn: 'token' | 'application'
}

/**
 * Reads the page, once.
 * @param folder where the page's files are, with a slash at its end
 * @throws {SluiceError} `dashboard.missing` where the package was not built
 */
export function createPage({ basePath, api, signIn }: PageOptions, folder: string = FOLDER): Page {
  const files = readFiles(
    folder,
    [
      `<base href="${basePath}/" />`,
      `<meta name="sluice-api" content="${api}" />`,
      `<meta name="sluice-sign-in" content="${signIn}" />`,
    ].join('\n    '),
  )
  const index = files.get('index.html')
  if (!index) throw missing()
  return {
    serves: (path) => path === basePath || path.startsWith(`${basePath}/`),
    async fetch(request) {
      const { pathname } = new URL(request.url)
      if (request.method !== 'GET' && request.method !== 'HEAD')
        return new Response('The dashboard is read by GET.\n', {
          status: 405,
          headers: { Allow: 'GET, HEAD', ...SAFE },
        })
      const name = pathname.slice(basePath.length + 1)
      const file = files.get(name)
      // A file that an older page asks for is gone after an upgrade; its place must not be taken by the index.
      if (!file && name.startsWith('assets/'))
        return new Response('This file is not part of the dashboard.\n', { status: 404, headers: SAFE })
      return answer(request, file ?? index, file !== undefined && name.startsWith('assets/'))
    },
  }
}

async function answer(request: Request, file: PageFile, immutable: boolean): Promise<Response> {
  const headers: Record<string, string> = {
    ...SAFE,
    'Content-Type': file.type,
    'Cache-Control': immutable ? 'public, max-age=31536000, immutable' : 'no-cache',
    ETag: file.etag,
    Vary: 'Accept-Encoding',
  }
  if (request.headers.get('if-none-match') === file.etag) return new Response(null, { status: 304, headers })
  const zipped = /\bgzip\b/.test(request.headers.get('accept-encoding') ?? '')
  if (zipped) {
    file.gzipped ??= compress(file.content, { level: 9 })
    headers['Content-Encoding'] = 'gzip'
  }
  const content = zipped && file.gzipped ? await file.gzipped : file.content
  headers['Content-Length'] = String(content.length)
  return new Response(request.method === 'HEAD' ? null : new Uint8Array(content), { headers })
}

function readFiles(folder: string, mount: string): Map<string, PageFile> {
  let names: string[]
  try {
    names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  } catch {
    throw missing()
  }
  return new Map(
    names.flatMap((name) => {
      const type = TYPES[extname(name)]
      if (type === undefined) return []
      const read = readFileSync(`${folder}${name}`)
      const content = name === 'index.html' ? Buffer.from(read.toString('utf8').replace('<!--mount-->', mount)) : read
      const etag = `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`
      return [[name.replaceAll('\\', '/'), { type, content, gzipped: null, etag }]]
    }),
  )
}

function missing(): SluiceError {
  return new SluiceError(
    'dashboard.missing',
    'The page of the dashboard is not built. Run `npm run build` in this repository; a published package has it.',
  )
}
