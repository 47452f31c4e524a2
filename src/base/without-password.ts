/** Hides the passwords of URLs in a text, for display and logs: `postgres://user:***@host`, `password=***`. */
export function withoutPassword(text: string): string {
  return text
    .replaceAll(/([a-z][a-z0-9+.-]*:\/\/[^:/?#\s"'@]*:)[^\s"']*@/gi, '$1***@')
    .replaceAll(/\b(password\s*=\s*)('[^']*'|[^&\s"']+)/gi, '$1***')
}
