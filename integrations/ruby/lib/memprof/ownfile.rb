# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

module Memprof
  # Files that a program names for its counts: new ones, or the user's own.
  #
  # They tell what a service does, and a service often runs as root, with files in a folder that
  # all may write to. There another user may have put a link to a file of root's in the place of
  # such a file, or a file that the other user can read. So a new file is readable by its owner
  # alone, a link is followed only if it is root's or the user's, and somebody else's file is
  # refused.
  module OwnFile
    module_function

    # Open a file for writing at its end, and yield it. Raises SystemCallError.
    def open(path, &work)
      flags = File::WRONLY | File::APPEND | File::BINARY
      begin
        return File.open(path, flags | File::CREAT | File::EXCL, 0o600, &work)
      rescue Errno::EEXIST
        there = File.lstat(path)
      end
      return File.open(path, flags | File::CREAT, 0o600, &work) if there.symlink? && ours?(there)

      refuse_others(there, path) # to open a pipe may wait for its reader
      File.open(path, flags | File::NOFOLLOW) do |file|
        refuse_others(file.stat, path)
        yield file
      end
    end

    def refuse_others(status, path)
      return if status.chardev? || status.owned?

      raise Errno::EACCES, "#{path} belongs to user #{status.uid}"
    end

    def ours?(status)
      status.uid.zero? || status.owned?
    end
  end
end
