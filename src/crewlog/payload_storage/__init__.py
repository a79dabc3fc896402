"""Where payloads go: their conversion, external storage for large ones, and the files of messages.

directory         the default directory
settings          where the folder is, and above which size a payload goes there
converter         values to payloads and back
external_storage  large payloads as files, and what happens where a file is missing
file_store        the bytes of files that messages refer to
"""
